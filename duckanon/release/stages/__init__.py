"""The stages of a release, each a module or a folder of that name.

stage → embed → limit → bucket → partition → repair → protect → recode → audit → advise → publish

The signature of a stage names the results that it reads. It leaves temporary relations behind and returns a
frozen dataclass that names them. `publish` stands beside this folder: it writes what was temporary before.
"""
