"""The stages of a release, each a module or a folder of that name.

stage → embed → limit → bucket → partition → repair → together → protect →
subsets → recode → audit → advise → publish

The signature of a stage names the results that it reads. A stage makes temporary relations and returns a
frozen dataclass with their names. `publish` stands outside this folder, because it writes the permanent
tables.
"""
