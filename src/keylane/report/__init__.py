"""What a person looks at: one HTML file that asks nothing of the network.

markup   tags whose text is escaped unless it was made here
page     the shell: styles, script and data in one file, with a policy that forbids every request
draw     small pictures as SVG
words    numbers and keys as a reader wants them
demo     the page of `keylane demo`, from its figures; `case` is its part on one stream
plan     the pages of `keylane plan` and `keylane profile`, from their documents
           lanes, traffic, compared, balance, cost: its sections; `parts` is what those are built from
           axes, curves, dots, heat, matrix: its charts; `when` is the names of windows
charts   the same charts as objects, for notebooks
"""
