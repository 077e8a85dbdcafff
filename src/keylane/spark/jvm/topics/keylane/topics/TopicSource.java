package keylane.topics;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectStreamClass;
import java.util.Base64;
import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import keylane.blocks.RecordPacker;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A topic as a stream of blocks. A task reads all its partitions with one consumer, which it keeps for the next batch, and
 * packs the records that are plain; the others are rows, for Spark to read. Its offsets have, beside how far each partition
 * is read, how far it went when that was decided, and the clock: what a batch makes of its records depends on both, and is
 * the same when the batch is made again.
 *
 * <pre>
 *   topic, start      its name; the offset of each partition at which a new query begins, by commas
 *   max, tasks        records of a batch at most, and tasks that read them
 *   packer            a RecordPacker.Maker, serialized, as Base64
 *   kafka.*           settings of the consumers, without secrets
 * </pre>
 */
public final class TopicSource implements TableProvider, SupportsRead, ScanBuilder, Scan {
    static final StructType SCHEMA = StructType.fromDDL(
        "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
            + "keylane_clock bigint, keylane_slot int, keylane_block binary");

    private CaseInsensitiveStringMap options;

    public StructType inferSchema(CaseInsensitiveStringMap given) {
        return SCHEMA;
    }

    public Table getTable(StructType schema, Transform[] partitioning, Map given) {
        options = new CaseInsensitiveStringMap(given);
        return this;
    }

    public String name() {
        return "keylane topic";
    }

    public StructType schema() {
        return SCHEMA;
    }

    public StructType readSchema() {
        return SCHEMA;
    }

    public Set capabilities() {
        return EnumSet.of(TableCapability.MICRO_BATCH_READ);
    }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap given) {
        options = given;
        return this;
    }

    public Scan build() {
        return this;
    }

    public MicroBatchStream toMicroBatchStream(String checkpoint) {
        return new TopicStream(options, maker(options.get("packer")));
    }

    /** By the loader of this class: that of the thread need not know it. */
    private static final class Objects extends ObjectInputStream {
        Objects(byte[] bytes) throws IOException {
            super(new ByteArrayInputStream(bytes));
        }

        protected Class resolveClass(ObjectStreamClass described) throws IOException, ClassNotFoundException {
            try {
                return Class.forName(described.getName(), false, TopicSource.class.getClassLoader());
            } catch (ClassNotFoundException basic) {
                return super.resolveClass(described);
            }
        }
    }

    private static RecordPacker.Maker maker(String text) {
        try {
            return (RecordPacker.Maker) new Objects(Base64.getDecoder().decode(text)).readObject();
        } catch (Exception error) {
            throw new IllegalArgumentException("no packer of records", error);
        }
    }
}
