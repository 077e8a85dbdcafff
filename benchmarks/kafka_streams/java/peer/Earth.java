package peer;

import com.uber.h3core.H3Core;
import com.uber.h3core.util.LatLng;
import java.nio.ByteBuffer;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.kafka.common.utils.Utils;

/** Places, cells, lanes and distances: the same rules as keylane's, written down once more. */
final class Earth {
    static final double RADIUS_M = 6371008.8;
    private static final int HOME = 9;
    private static final int ROUTED_AT = 3;
    /** The shortest edge of a home cell, and more than the farthest that a point of one lies from its centre. */
    private static final double EDGE_M = 141.1;
    private static final double REACH_M = 235.0;

    private final H3Core h3;
    private final double radius;
    private final int rings;
    private final int lanes;

    Earth(double radius, int lanes) throws Exception {
        this.h3 = H3Core.newInstance();
        this.radius = radius;
        this.rings = (int) Math.ceil((radius / EDGE_M + 0.5) / 1.5);
        this.lanes = lanes;
    }

    long cell(double lat, double lng) {
        return h3.latLngToCell(lat, lng, HOME);
    }

    /** The lane that a place is in. */
    int home(double lat, double lng) {
        return lane(ancestor(cell(lat, lng)));
    }

    /** Every cell that may hold a place within the radius. */
    List disk(double lat, double lng) {
        return h3.gridDisk(cell(lat, lng), rings);
    }

    /** The lanes that may hold a driver within the radius: the disk is trimmed only where it has two routing cells. */
    Set lanesAround(double lat, double lng) {
        List disk = disk(lat, lng);
        Set routed = new HashSet();
        for (int at = 0; at < disk.size(); at++) {
            routed.add(Long.valueOf(ancestor(((Long) disk.get(at)).longValue())));
        }
        Set out = new HashSet();
        if (routed.size() == 1) {
            out.add(Integer.valueOf(lane(((Long) routed.iterator().next()).longValue())));
            return out;
        }
        for (int at = 0; at < disk.size(); at++) {
            long cell = ((Long) disk.get(at)).longValue();
            LatLng centre = h3.cellToLatLng(cell);
            if (metres(lat, lng, centre.lat, centre.lng) <= radius + REACH_M) {
                out.add(Integer.valueOf(lane(ancestor(cell))));
            }
        }
        return out;
    }

    boolean near(double lat, double lng, Position position, double[] metres) {
        metres[0] = metres(lat, lng, position.lat, position.lng);
        return metres[0] <= radius;
    }

    private int lane(long routed) {
        return Utils.toPositive(Utils.murmur2(ByteBuffer.allocate(8).putLong(routed).array())) % lanes;
    }

    private static long ancestor(long cell) {
        long finer = (1L << 3 * (15 - ROUTED_AT)) - 1L;
        return cell & ~(15L << 52) | (long) ROUTED_AT << 52 | finer;
    }

    private static double metres(double lat1, double lng1, double lat2, double lng2) {
        double north = Math.sin(Math.toRadians(lat2 - lat1) / 2);
        double east = Math.sin(Math.toRadians(lng2 - lng1) / 2);
        double scale = Math.cos(Math.toRadians(lat1)) * Math.cos(Math.toRadians(lat2));
        return 2 * RADIUS_M * Math.asin(Math.sqrt(Math.min(1.0, north * north + scale * east * east)));
    }
}
