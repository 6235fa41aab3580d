"""Published methods of microaggregation and t-closeness, each as published, one family a module.

Points in, labels out, as in `duckanon.kernels`, on which they stand. The pipeline does not need them:
they are here to be compared with, and for those who must follow a paper to the letter.
"""
