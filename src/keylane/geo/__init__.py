"""Places on the earth and their H3 cells: the only room that imports H3. Needs the extra `geo`.

bits     what can be read off a cell's number: resolution, ancestors, order along the curve; needs no library
places   which latitudes and longitudes are a place, and the reason when they are none
cells    a place -> the cell it is in
disks    the cells around a cell
children the cells under a cell
shapes   the outline of a cell
split, pack, rebalance   counted cells -> leaves, leaves -> lanes, and a table in use made even by few moves

Which lane a cell has: `keylane.placement.cell_lanes`. Who is near whom: `keylane.matching`.
"""
