package keylane.match;

import java.util.HashMap;
import java.util.Map;

/**
 * Positions by squares of about the radius: rows of equal height, each with as many squares as keep them about as wide. A
 * search asks the squares that a circle touches, by the longitudes that it reaches; near a pole, those all around.
 */
final class Grid {
    private static final double LEAST_M = 250.0;
    /** A hair more than the radius: rounding must not leave out a square. */
    private static final double HAIR = 1.0 + 1e-9;

    private final double angle;
    private final double height;
    private final Map squares = new HashMap();

    Grid(double radius) {
        angle = radius / Sphere.EARTH_RADIUS_M * HAIR + 1e-12;
        height = Math.toDegrees(Math.max(radius, LEAST_M) / Sphere.EARTH_RADIUS_M);
    }

    private int row(double lat) {
        return (int) Math.floor((lat + 90.0) / height);
    }

    /** How many squares a row has. */
    private int width(int row) {
        double middle = Math.toRadians(Math.min(90.0, Math.max(-90.0, (row + 0.5) * height - 90.0)));
        return Math.max(1, (int) (360.0 / height * Math.cos(middle)));
    }

    private static int column(double lng, int width) {
        return (int) Math.floor((lng + 180.0) / 360.0 * width);
    }

    private static Long key(int row, int column, int width) {
        return Long.valueOf((long) row << 32 | Math.floorMod(column, width));
    }

    void add(Position position) {
        int row = row(position.lat);
        int width = width(row);
        Long key = key(row, column(position.lng, width), width);
        Square square = (Square) squares.get(key);
        if (square == null) {
            square = new Square(key);
            squares.put(key, square);
        }
        square.add(position);
    }

    /** Remove a position, if it is here. */
    void remove(Position position) {
        Square square = position.square;
        if (square != null) {
            square.remove(position);
            if (square.count == 0) {
                squares.remove(square.key);
            }
        }
    }

    /** Call back for every position in the squares that a circle touches. */
    void search(double lat, double lng, Visitor visitor) {
        double reach = Math.toDegrees(angle);
        int last = row(Math.min(90.0, lat + reach));
        // How far east and west a circle goes on a sphere; all around where it holds a pole.
        boolean pole = Math.abs(lat) + reach >= 90.0;
        double side = pole ? 180.0 : Math.toDegrees(Math.asin(Math.sin(angle) / Math.cos(Math.toRadians(lat))));
        for (int row = row(Math.max(-90.0, lat - reach)); row <= last; row++) {
            int width = width(row);
            int from = column(lng - side, width);
            int to = column(lng + side, width);
            if (to - from >= width - 1) {
                from = 0;
                to = width - 1;
            }
            for (int column = from; column <= to; column++) {
                Square square = (Square) squares.get(key(row, column, width));
                for (int at = 0; square != null && at < square.count; at++) {
                    visitor.visit(square.positions[at]);
                }
            }
        }
    }

    interface Visitor {
        void visit(Position position);
    }
}
