"""Nearest and farthest records, exactly and with ties to the lowest record.

`boxtree` (on `slots` and `heap`) searches records that leave, `outermost` finds the farthest record from a
moving centre, `kd` orders records in blocks, and `centroids` finds the nearest of many classes.
"""
