package keylane.topics;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Arrays;
import org.apache.spark.sql.connector.read.streaming.Offset;

/** How far each partition is read, how far it went when that was decided, and the clock then, in microseconds. */
final class TopicOffset extends Offset {
    final long[] read;
    final long[] end;
    final long clock;

    TopicOffset(long[] read, long[] end, long clock) {
        this.read = read;
        this.end = end;
        this.clock = clock;
    }

    static TopicOffset of(String json) {
        try {
            JsonNode found = new ObjectMapper().readTree(json);
            return new TopicOffset(numbers(found, "read"), numbers(found, "end"), ((JsonNode) found.get("clock")).asLong());
        } catch (Exception error) {
            throw new IllegalArgumentException("not the offset of a topic: " + json, error);
        }
    }

    private static long[] numbers(JsonNode node, String name) {
        JsonNode list = (JsonNode) node.get(name);
        long[] out = new long[list.size()];
        for (int at = 0; at < out.length; at++) {
            out[at] = ((JsonNode) list.get(at)).asLong();
        }
        return out;
    }

    /** Where a partition is read to: a partition that is new is not read at all. */
    long read(int partition) {
        return partition < read.length ? read[partition] : 0L;
    }

    public String json() {
        return "{\"read\":" + text(read) + ",\"end\":" + text(end) + ",\"clock\":" + clock + "}";
    }

    private static String text(long[] numbers) {
        return Arrays.toString(numbers).replace(" ", "");
    }
}
