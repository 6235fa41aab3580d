"""Who is near whom, exactly and with ties to the lowest record.

`boxtree` (on `slots` and `heap`) searches records that leave, `outermost` the farthest from a moving centre,
`kd` orders records in blocks, `centroids` finds the nearest of many classes.
"""
