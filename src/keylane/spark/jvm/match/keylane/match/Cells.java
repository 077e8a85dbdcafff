package keylane.match;

import com.uber.h3core.H3Core;
import com.uber.h3core.util.LatLng;
import java.util.List;
import keylane.h3.H3Library;

/** H3 as a match needs it: the home cell of a location, and cells around, under and about one. */
final class Cells {
    static final int HOME = 9;
    private static final H3Core H3 = H3Library.loaded();

    static long home(double lat, double lng) {
        return H3.latLngToCell(lat, lng, HOME);
    }

    /** The cells up to so many steps from one. */
    static long[] disk(long cell, int steps) {
        return numbers(H3.gridDisk(cell, steps));
    }

    static long[] children(long cell) {
        return numbers(H3.cellToChildren(cell, LaneTable.resolutionOf(cell) + 1));
    }

    private static long[] numbers(List cells) {
        long[] out = new long[cells.size()];
        for (int at = 0; at < out.length; at++) {
            out[at] = ((Long) cells.get(at)).longValue();
        }
        return out;
    }

    /** Latitude and longitude of a cell's centre. */
    static double[] centre(long cell) {
        LatLng found = H3.cellToLatLng(cell);
        return new double[] {found.lat, found.lng};
    }

    /** Latitude and longitude of each corner of a cell, one after the other. */
    static double[] outline(long cell) {
        List corners = H3.cellToBoundary(cell);
        double[] out = new double[corners.size() * 2];
        for (int at = 0; at < corners.size(); at++) {
            LatLng corner = (LatLng) corners.get(at);
            out[2 * at] = corner.lat;
            out[2 * at + 1] = corner.lng;
        }
        return out;
    }
}
