package keylane.match;

import java.util.HashMap;
import java.util.Map;

/**
 * The lanes that can hold a driver within the radius of a request, by all tables in use: its home lane, and the few
 * others that have a home cell with a point within the radius. Equal to keylane.matching.cover, one request at a time.
 *
 * <p>Looked for from coarse cells to fine ones. A cell whose centre is within the radius has a home cell there, and its
 * lane is in the cover; one whose centre is farther than the radius and the farthest point of any home cell under it has
 * none. In between its children are asked, and at the finest the outline of the cell.
 */
final class Cover {
    private static final int COARSE = 7;
    /** No point of a home cell under a cell of resolution 7, 8, 9 is farther from the cell's centre. */
    private static final double[] FARTHEST_M = {1720.0, 640.0, 235.0};
    private static final double STEP_M = 1450.0;
    private static final double SPARE_M = 1.0;
    private static final int MOST_KNOWN = 20000;

    private final LaneTable[] tables;
    private final double radius;
    private final int steps;
    /** By the coarse cell of a request: the cells around it that may have other lanes than its own one. */
    private final Map around = new HashMap();
    private boolean[] found;
    private int many;

    Cover(LaneTable[] tables, double radius, int lanes) {
        this.tables = tables;
        this.radius = radius;
        this.steps = (int) Math.ceil((radius + 2 * FARTHEST_M[0]) / STEP_M);
        this.found = new boolean[lanes];
    }

    /** Mark the lanes of a request; how many there are. */
    int lanes(double lat, double lng, boolean[] marked) {
        found = marked;
        java.util.Arrays.fill(found, false);
        many = 0;
        long home = Cells.home(lat, lng);
        // By all tables: of the cell that the request is in, no edge need be near.
        addAll(home);
        long[] others = others(LaneTable.ancestor(home, COARSE));
        for (int at = 0; at < others.length; at++) {
            visit(others[at], COARSE, lat, lng);
        }
        return many;
    }

    private void add(int lane) {
        if (!found[lane]) {
            found[lane] = true;
            many++;
        }
    }

    private void visit(long cell, int resolution, double lat, double lng) {
        double[] centre = Cells.centre(cell);
        double metres = Sphere.metres(lat, lng, centre[0], centre[1]);
        if (metres > radius + FARTHEST_M[resolution - COARSE]) {
            return;
        }
        long middle = LaneTable.middle(cell, Cells.HOME);
        if (metres <= radius) {
            addAll(middle);
        }
        if (isCovered(cell, middle)) {
            return;
        }
        if (resolution == Cells.HOME) {
            if (Sphere.metresToOutline(lat, lng, Cells.outline(cell)) <= radius + SPARE_M) {
                addAll(middle);
            }
            return;
        }
        long[] children = Cells.children(cell);
        for (int at = 0; at < children.length; at++) {
            visit(children[at], resolution + 1, lat, lng);
        }
    }

    private void addAll(long home) {
        for (int at = 0; at < tables.length; at++) {
            add(tables[at].lane(home));
        }
    }

    private boolean isCovered(long cell, long middle) {
        for (int at = 0; at < tables.length; at++) {
            if (!tables[at].isOneLane(cell) || !found[tables[at].lane(middle)]) {
                return false;
            }
        }
        return true;
    }

    /** The cells around a coarse one, without those that are wholly in the one lane that it is wholly in. */
    private long[] others(long own) {
        long[] known = (long[]) around.get(Long.valueOf(own));
        if (known == null) {
            if (around.size() >= MOST_KNOWN) {
                around.clear();
            }
            known = findOthers(own);
            around.put(Long.valueOf(own), known);
        }
        return known;
    }

    private long[] findOthers(long own) {
        long[] disk = Cells.disk(own, steps);
        int lane = isOneLane(own) ? tables[tables.length - 1].lane(LaneTable.middle(own, Cells.HOME)) : -1;
        int kept = 0;
        for (int at = 0; at < disk.length; at++) {
            if (lane < 0 || !isAllOf(disk[at], lane)) {
                disk[kept++] = disk[at];
            }
        }
        return java.util.Arrays.copyOf(disk, kept);
    }

    private boolean isOneLane(long cell) {
        for (int at = 0; at < tables.length; at++) {
            if (!tables[at].isOneLane(cell)) {
                return false;
            }
        }
        return true;
    }

    private boolean isAllOf(long cell, int lane) {
        long middle = LaneTable.middle(cell, Cells.HOME);
        for (int at = 0; at < tables.length; at++) {
            if (!tables[at].isOneLane(cell) || tables[at].lane(middle) != lane) {
                return false;
            }
        }
        return true;
    }
}
