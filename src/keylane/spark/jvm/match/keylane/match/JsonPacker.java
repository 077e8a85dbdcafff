package keylane.match;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectOutputStream;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import keylane.blocks.RecordPacker;
import keylane.blocks.SourceTimes;
import keylane.blocks.SparkColumns;
import org.apache.spark.sql.catalyst.InternalRow;

/** Packs the records of a topic of drivers or riders: plain JSON by itself, all else by columns of Spark. */
public final class JsonPacker implements RecordPacker {
    /** An offset and its partition as one number, in the order of offsets; as in keylane.pipelines.match.sources. */
    private static final int LANE_BITS = 17;

    private final Pack pack;
    private final PlainJson json;
    private final SparkColumns columns;
    private final long clock;
    private SparkColumns.Compiled compiled;

    private JsonPacker(Rules rules, int source, PlainJson json, SparkColumns columns, long clock) {
        this.pack = new Pack(rules, source, SourceTimes.SAME);
        this.json = json;
        this.columns = columns;
        this.clock = clock;
    }

    /** Makes them. `json` is null where no value is plain; `columns` where it takes a plan to read the others. */
    public static final class Maker implements RecordPacker.Maker {
        private final Rules rules;
        private final int source;
        private final PlainJson json;
        private final SparkColumns columns;

        public Maker(Rules rules, int source, Map names, SparkColumns columns) {
            this.rules = rules;
            this.source = source;
            this.columns = columns;
            this.json = names == null ? null : plain(names);
        }

        private static PlainJson plain(Map given) {
            List fields = (List) given.get("names");
            List region = (List) given.get("region");
            String[] names = new String[fields.size()];
            double[] bounds = new double[4];
            for (int i = 0; i < names.length; i++) {
                names[i] = (String) fields.get(i);
            }
            for (int i = 0; i < 4; i++) {
                bounds[i] = ((Number) region.get(i)).doubleValue();
            }
            return new PlainJson(names, ((Number) given.get("tick")).longValue(), bounds);
        }

        public RecordPacker packer(long clock) {
            return new JsonPacker(rules, source, json, columns, clock);
        }

        /** As an option of a source. */
        public String asText() throws IOException {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ObjectOutputStream objects = new ObjectOutputStream(out);
            objects.writeObject(this);
            objects.close();
            return Base64.getEncoder().encodeToString(out.toByteArray());
        }
    }

    public boolean pack(int partition, long offset, byte[] key, byte[] value) {
        if (json == null || !json.read(value)) {
            return false;
        }
        long place = offset << LANE_BITS | partition;
        return pack.fromPacked(
            partition, value, json.idAt, json.idLength, json.ts, place, json.lat, json.lng, json.available, clock);
    }

    public boolean packRow(InternalRow row) {
        if (columns == null) {
            return false;
        }
        if (compiled == null) {
            compiled = columns.take();
        }
        PackRows.put(compiled.of(row), pack);
        return true;
    }

    public void end(int partition, long unread) {
        pack.end(partition, unread);
    }

    public List rows() {
        if (compiled != null) {
            columns.giveBack(compiled);
            compiled = null;
        }
        return pack.rows();
    }
}
