"""Places on the earth: the only room that imports H3. Needs the extra `geo`.

cells    a place -> the cell it is in

A cell as a key of a contract needs none of this: `encoding: h3` reads its form off its bits (`keylane.keys.encode`).
"""
