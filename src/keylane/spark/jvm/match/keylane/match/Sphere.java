package keylane.match;

/** Distances on the sphere, in metres: the haversine that decides. Equal to keylane.matching.sphere. */
public final class Sphere {
    static final double EARTH_RADIUS_M = 6371008.8;

    public static double metres(double lat1, double lng1, double lat2, double lng2) {
        double a = Math.toRadians(lat1);
        double b = Math.toRadians(lat2);
        double across = Math.sin((a - b) / 2);
        double along = Math.sin(Math.toRadians(lng1 - lng2) / 2);
        double h = across * across + Math.cos(a) * Math.cos(b) * along * along;
        return 2 * EARTH_RADIUS_M * Math.asin(Math.sqrt(Math.min(h, 1.0)));
    }

    /**
     * Metres from a point to the nearest point of an outline that it is not inside of. Seen from the point, on the plane
     * that touches the sphere there, great circles are straight lines, and what is nearer on the plane is nearer on the
     * sphere. Corners as latitudes and longitudes, one after the other.
     */
    static double metresToOutline(double lat, double lng, double[] corners) {
        int count = corners.length / 2;
        double[] x = new double[count];
        double[] y = new double[count];
        double up = Math.toRadians(lat);
        for (int at = 0; at < count; at++) {
            double corner = Math.toRadians(corners[2 * at]);
            double turn = Math.toRadians(corners[2 * at + 1] - lng);
            double depth = Math.sin(up) * Math.sin(corner) + Math.cos(up) * Math.cos(corner) * Math.cos(turn);
            x[at] = Math.cos(corner) * Math.sin(turn) / depth;
            y[at] = (Math.cos(up) * Math.sin(corner) - Math.sin(up) * Math.cos(corner) * Math.cos(turn)) / depth;
        }
        double nearest = Double.POSITIVE_INFINITY;
        for (int at = 0; at < count; at++) {
            int next = (at + 1) % count;
            double dx = x[next] - x[at];
            double dy = y[next] - y[at];
            double along = -(x[at] * dx + y[at] * dy) / Math.max(dx * dx + dy * dy, 1e-300);
            along = Math.max(0.0, Math.min(1.0, along));
            nearest = Math.min(nearest, Math.hypot(x[at] + along * dx, y[at] + along * dy));
        }
        return EARTH_RADIUS_M * Math.atan(nearest);
    }
}
