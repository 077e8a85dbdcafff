package keylane.match;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import keylane.blocks.Block;

/**
 * Records that pass the steps on their way to the target.
 *
 * <pre>
 *   PAIR    rider ts 8 | rider offset 8 | driver ts 8 | driver offset 8 | metres 8 | rider length 4 | rider | driver
 *   COUNTS  a JSON object, to the end: the counts of a step
 *   DEAD    a JSON object, to the end: a dead letter
 * </pre>
 */
final class Passing {
    static final byte PAIR = Block.PASSING;
    static final byte COUNTS = Block.COUNTS;
    static final byte DEAD = Block.PASSING + 2;

    static void text(Block to, byte kind, String json) {
        to.begin(kind).putBytes(json.getBytes(StandardCharsets.UTF_8));
        to.end();
    }

    static String text(byte[] block, int at) {
        return string(block, at + Block.FIELDS, Block.length(block, at) - Block.FIELDS);
    }

    static String string(byte[] block, int at, int length) {
        return new String(block, at, length, StandardCharsets.UTF_8);
    }

    /** The order of two ids: by their bytes, as Python and Spark order them. Java's own differs beyond the basic plane. */
    static int order(String one, String other) {
        return Arrays.compareUnsigned(one.getBytes(StandardCharsets.UTF_8), other.getBytes(StandardCharsets.UTF_8));
    }

    /** A dead letter as JSON; null where something is not known. */
    static String letter(String side, String source, String reason, String original) {
        return "{\"side\":" + quoted(side) + ",\"source\":" + quoted(source) + ",\"reason\":" + quoted(reason)
            + ",\"original\":" + quoted(original) + "}";
    }

    static String quoted(String text) {
        if (text == null) {
            return "null";
        }
        StringBuilder out = new StringBuilder(text.length() + 2).append('"');
        for (int at = 0; at < text.length(); at++) {
            char c = text.charAt(at);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ') {
                String digits = Integer.toHexString(c);
                out.append("\\u0000", 0, 6 - digits.length()).append(digits);
            } else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }
}
