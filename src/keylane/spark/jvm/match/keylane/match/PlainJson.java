package keylane.match;

import java.io.Serializable;

/**
 * The fields of a JSON object that is plain: flat, ASCII, without escapes, each of our names once, whole times and plain
 * decimals, a location that is one. Most records are. Of any other, also of one that is wrong, it says only that it is
 * not plain: Spark reads it then, and judges it.
 */
final class PlainJson implements Serializable {
    private static final int ID = 0;
    private static final int TIME = 1;
    private static final int LAT = 2;
    private static final int LNG = 3;
    private static final int AVAILABLE = 4;
    private static final int NEEDED = 1 << ID | 1 << TIME | 1 << LAT | 1 << LNG;
    /** A number of so many digits is one that a double holds, and so is a power of ten of so many. */
    private static final int MOST_DIGITS = 15;
    private static final double[] TENS = {
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15
    };

    private final byte[][] names;
    private final long tick;
    private final double[] region;
    int idAt;
    int idLength;
    long ts;
    double lat;
    double lng;
    boolean available;
    private int at;

    /** `tick` is the unit of times in microseconds, 0: the one that their size has; `region` south, west, north and east of where locations are. */
    PlainJson(String[] names, long tick, double[] region) {
        this.names = new byte[names.length][];
        for (int i = 0; i < names.length; i++) {
            this.names[i] = names[i].getBytes(java.nio.charset.StandardCharsets.US_ASCII);
        }
        this.tick = tick;
        this.region = region;
    }

    /** Whether a value is plain; its fields are then set. */
    boolean read(byte[] b) {
        if (b == null) {
            return false;
        }
        available = true;
        int found = 0;
        at = 0;
        skip(b);
        if (!is(b, '{')) {
            return false;
        }
        do {
            skip(b);
            int from = at + 1;
            if (!string(b)) {
                return false;
            }
            int field = field(b, from, at - 1 - from);
            skip(b);
            if (!is(b, ':') || field >= 0 && (found & 1 << field) != 0) {
                return false;
            }
            skip(b);
            if (!value(b, field)) {
                return false;
            }
            found |= field >= 0 ? 1 << field : 0;
            skip(b);
        } while (is(b, ','));
        if (!is(b, '}')) {
            return false;
        }
        skip(b);
        return at == b.length && (found & NEEDED) == NEEDED && isLocation();
    }

    private void skip(byte[] b) {
        while (at < b.length && (b[at] == ' ' || b[at] == '\n' || b[at] == '\r' || b[at] == '\t')) {
            at++;
        }
    }

    private boolean is(byte[] b, char c) {
        if (at < b.length && b[at] == c) {
            at++;
            return true;
        }
        return false;
    }

    /** A string without escapes, up to and with its end. Bytes beyond ASCII are negative. */
    private boolean string(byte[] b) {
        if (!is(b, '"')) {
            return false;
        }
        while (at < b.length && b[at] >= ' ' && b[at] != '"' && b[at] != '\\') {
            at++;
        }
        return is(b, '"');
    }

    private int field(byte[] b, int from, int length) {
        for (int i = 0; i < names.length; i++) {
            if (keylane.blocks.IdTable.isSame(names[i], b, from, length)) {
                return i;
            }
        }
        return -1;
    }

    private boolean value(byte[] b, int field) {
        int from = at;
        if (at < b.length && b[at] == '"') {
            if (!string(b) || field > ID) {
                return false;
            }
            if (field == ID) {
                idAt = from + 1;
                idLength = at - 2 - from;
                return idLength > 0;
            }
            return true;
        }
        if (at < b.length && b[at] >= 'a') {
            return word(b, field);
        }
        return field != ID && field != AVAILABLE && number(b, field);
    }

    private boolean word(byte[] b, int field) {
        int from = at;
        while (at < b.length && b[at] >= 'a' && b[at] <= 'z') {
            at++;
        }
        boolean isTrue = isWord(b, from, "true");
        if (field == AVAILABLE) {
            available = isTrue;
            return isTrue || isWord(b, from, "false");
        }
        return field < 0 && (isTrue || isWord(b, from, "false") || isWord(b, from, "null"));
    }

    private boolean isWord(byte[] b, int from, String word) {
        if (at - from != word.length()) {
            return false;
        }
        for (int i = 0; i < word.length(); i++) {
            if (b[from + i] != word.charAt(i)) {
                return false;
            }
        }
        return true;
    }

    private boolean number(byte[] b, int field) {
        boolean minus = is(b, '-');
        int first = at;
        long whole = digits(b, 0L);
        int before = at - first;
        if (before == 0 || before > 1 && b[first] == '0') {
            return false;
        }
        int after = 0;
        if (is(b, '.')) {
            int point = at;
            whole = digits(b, whole);
            after = at - point;
            if (after == 0) {
                return false;
            }
        }
        boolean ends = at < b.length && (b[at] == ',' || b[at] == '}' || b[at] <= ' ');
        if (before + after > MOST_DIGITS || !ends) {
            return false;
        }
        if (field == TIME) {
            long unit = tick == 0 ? tickOf(whole) : tick;
            ts = (minus ? -whole : whole) * unit;
            return after == 0 && unit > 0 && whole <= Long.MAX_VALUE / 4 / unit;
        }
        double value = whole / TENS[after];
        if (field == LAT) {
            lat = minus ? -value : value;
        } else if (field == LNG) {
            lng = minus ? -value : value;
        }
        return true;
    }

    /** The unit in which a number is a time of 1980 to 2286, in microseconds; 0 where it is none in any. */
    private static long tickOf(long number) {
        long least = 315_532_800L;
        long most = 10_000_000_000L;
        for (long unit = 1_000_000L; unit > 0; unit /= 1000) {
            if (number >= least && number < most) {
                return unit;
            }
            least *= 1000;
            most *= 1000;
        }
        return 0;
    }

    private long digits(byte[] b, long so) {
        while (at < b.length && b[at] >= '0' && b[at] <= '9') {
            so = so * 10 + (b[at] - '0');
            at++;
        }
        return so;
    }

    private boolean isLocation() {
        boolean onEarth = lat >= -90.0 && lat <= 90.0 && lng >= -180.0 && lng <= 180.0 && (lat != 0.0 || lng != 0.0);
        boolean after = lng >= region[1];
        boolean before = lng <= region[3];
        boolean between = region[1] <= region[3] ? after && before : after || before;
        return onEarth && lat >= region[0] && lat <= region[2] && between;
    }
}
