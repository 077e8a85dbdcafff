"""Locations on the earth and their H3 cells: the only package that imports H3. Needs the extra `geo`.

    coordinates  which latitudes and longitudes are a location, and the reason when they are not; needs no library
    bits         what a cell's number contains: resolution, ancestors, children, order along the curve; needs no library
    cells        a location -> its cell; the cells around a cell
    lane_tables  counted cells -> leaves, leaves -> lanes, and a table in use evened out by few moves
    regions      leaves -> compact regions of equal load, so that few records lie near another lane
    shapes       the outline of a cell on a flat map, and the borders between lanes

Which lane a cell has: `keylane.placement.cell_lanes`. Who is near whom: `keylane.matching`.
"""
