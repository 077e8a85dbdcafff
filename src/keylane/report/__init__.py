"""HTML pages and charts from documents: one file each that asks nothing of the network.

    html           tags whose text is escaped; the shell of a page, with a policy that forbids every request
    windows        windows of time and keys as text; numbers: `keylane.numbers`
    sections       what sections are built from: headings, figures, tables, charts for two widths
    plan_page      the pages of `keylane plan` and `keylane profile`; plan_sections: their sections
    demo_page      the page of `keylane demo`
    demo_migrate_page  the page of `keylane demo migrate`
    geo_pages      the pages of `keylane geo table` and `keylane match`
    aggregate_page  the page of `aggregate explain`: queries that are hot, late or failing, and lanes
    assign_page    the page of `assign`: members with their lanes, what moved, and every assignor
    shards_page    the page of `shards plan`: the key space as a line, and the calls as steps
    migrate_page   the page of `migrate plan`: the timetable, who waits for whom, what it needs
    migrate_status_page  the page of `migrate status`: phases over time, old lanes and what is left of them
    svg_charts     charts as SVG: scales, axes, curves, bars, dots
    heatmap        lanes over time
    charts         the charts as objects, for notebooks; notebook: whole documents there
    map            the data that a map is drawn from; land: outlines of land

The documents: `keylane.documents`.
"""
