package keylane.blocks;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.KeyValueGroupedDataset;
import org.apache.spark.sql.streaming.ListState;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.QueryInfo;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.ValueState;
import scala.Tuple2;

/**
 * A stateful step on packed blocks, one group of Spark for each slot. In Spark's store a slot has the log of the blocks
 * that it was given since its last snapshot; what it works on are objects in memory that live from batch to batch.
 *
 * <p>The rule. A batch appends what it was given and a new token, and reads no more than the token before. Objects in
 * memory are those of the store's version that Spark has loaded only if they have its token; otherwise they are dropped
 * and made again from snapshot and log: after a kill, a failed task, or on another executor. So a batch costs what it
 * changes and not what is known, and nothing depends on where it runs.
 *
 * <pre>
 *   head   token 8 | bytes of the log 8 | bytes of its snapshot 8 | values of the log 8 | batch 8 | owner 8
 *   log    a snapshot (S and bytes) or nothing, then for each batch B, its blocks, and what it decided
 * </pre>
 *
 * The head also has whose it is (query, step and slot) and the batch that wrote it, so that a file of another slot, or of
 * an older batch, in the place of the right one is noticed: the owner here, the batch by whoever commits. For that a slot
 * reports with each batch, as COUNTS, which batch wrote what it found.
 *
 * <p>A subclass must do the same for the same blocks, whenever and wherever: no clock, no random number, no question to
 * anybody. What differs from run to run comes in a record of its source, or is in the log as decided.
 */
public abstract class BlockStep extends StatefulProcessor {
    private static final byte BATCH = 'B';
    private static final byte SNAPSHOT = 'S';
    /** A snapshot is made when the log is this many times as long as the last one, and longer than LEAST_LOG. */
    private static final long LOG_TO_SNAPSHOT = 4L;
    private static final long LEAST_LOG = 1L << 20;
    private static final int BATCH_AT = 32;
    private static final int OWNER_AT = 40;
    private static final int HEAD = 48;

    private static final IdleCache MEMORY = new IdleCache("keylane state in memory");
    private static final java.util.Random TOKENS = new java.security.SecureRandom();

    protected final Slots slots;
    private final String step;
    private transient ValueState head;
    private transient ListState log;

    protected BlockStep(Slots slots, String step) {
        this.slots = slots;
        this.step = step;
    }

    /** What a slot knows before its first batch. */
    public abstract Object empty();

    /** Take the blocks of a batch. `out` is null where they are taken again, to make what was known in memory. */
    public abstract void take(Object memory, int slot, List blocks, Output out);

    /**
     * What the batch just taken decided by settings that the next run may change, as records of state: they are in the log
     * after its blocks, and `take` finds them there when `out` is null. Nothing, where no such setting decides anything.
     */
    public byte[] decided(Object memory) {
        return new byte[0];
    }

    /** All that is known as one block. */
    public abstract byte[] snapshot(Object memory);

    /** Make what is known again, from a snapshot, in an empty memory. */
    public abstract void restore(Object memory, byte[] snapshot);

    /** This step on a stream of blocks, rows of a slot's key and a block: the blocks that it sends. */
    public final Dataset after(Dataset blocks) {
        Encoder block = Encoders.tuple(Encoders.INT(), Encoders.BINARY());
        KeyValueGroupedDataset bySlot = blocks.toDF(new String[] {"_1", "_2"}).groupBy("_1", new String[0])
            .as(Encoders.INT(), block);
        return bySlot.transformWithState(this, TimeMode.None(), OutputMode.Append(), block);
    }

    /** Drop what is in memory of a query that has ended; how many slots. In other processes it goes when it is idle. */
    public static int forget(String query) {
        return IdleCache.dropEverywhere(query + "/");
    }

    private static final class Held {
        final Object memory;
        long token;

        Held(Object memory) {
            this.memory = memory;
        }
    }

    public void init(OutputMode mode, TimeMode time) {
        head = getHandle().getValueState("head", Encoders.BINARY(), TTLConfig.NONE());
        log = getHandle().getListState("log", Encoders.BINARY(), TTLConfig.NONE());
    }

    public scala.collection.Iterator handleInputRows(Object key, scala.collection.Iterator rows, TimerValues timers) {
        int slot = slots.slotOfKey(((Integer) key).intValue());
        QueryInfo query = getHandle().getQueryInfo();
        String place = query.getQueryId() + "/" + step + "/" + slot + "/";
        // Of this run only: the next one may have other rules.
        String name = place + query.getRunId();
        long owner = UUID.nameUUIDFromBytes(place.getBytes(StandardCharsets.UTF_8)).getMostSignificantBits();
        byte[] known = (byte[]) head.get();
        check(known, owner, slot);
        long token = known == null ? 0L : Block.getLong(known, 0);
        Held held = (Held) MEMORY.take(name);
        boolean isCurrent = held != null && held.token == token;
        long began = System.nanoTime();
        if (!isCurrent) {
            MEMORY.drop(place);
            held = new Held(again(known, slot));
        }
        long restored = isCurrent || known == null ? -1L : (System.nanoTime() - began) / 1000L;
        List blocks = new ArrayList();
        byte[] batch = batch(rows, blocks);
        Output out = new Output(slots);
        take(held.memory, slot, blocks, out);
        Block logged = new Block(batch.length).putBytes(batch).putBytes(decided(held.memory));
        byte[] after = write(known, logged.toBytes(), held.memory, query.getBatchId(), owner);
        head.update(after);
        held.token = Block.getLong(after, 0);
        MEMORY.giveBack(name, held);
        report(known, after, slot, restored, out);
        return scala.jdk.javaapi.CollectionConverters.asScala(out.rows().iterator());
    }

    private void check(byte[] known, long owner, int slot) {
        if (known != null && (known.length != HEAD || Block.getLong(known, OWNER_AT) != owner)) {
            throw new IllegalStateException(damaged(slot) + "it is that of another slot, step or query");
        }
    }

    private String damaged(int slot) {
        return "the state of " + step + " " + slot + " is damaged: ";
    }

    /** What a slot found and left, for whoever commits the batch: -1 is no batch at all, and nothing that was restored. */
    private void report(byte[] known, byte[] after, int slot, long restored, Output out) {
        long found = known == null ? -1L : Block.getLong(known, BATCH_AT);
        String json = "{\"step\":\"state\",\"of\":\"" + step + "\",\"slot\":" + slot + ",\"found\":" + found
            + ",\"restored\":" + (restored < 0L ? 0 : 1) + ",\"restore_us\":" + Math.max(0L, restored)
            + ",\"state_bytes\":" + Block.getLong(after, 8) + "}";
        out.passingTo(0).begin(Block.COUNTS).putBytes(json.getBytes(StandardCharsets.UTF_8)).end();
    }

    /** The blocks of a batch, and those of them that are state as a value of the log. */
    private static byte[] batch(scala.collection.Iterator rows, List blocks) {
        Block value = new Block(1 << 12);
        value.putBytes(new byte[] {BATCH});
        while (rows.hasNext()) {
            byte[] block = (byte[]) ((Tuple2) rows.next())._2();
            blocks.add(block);
            if (!Block.isPassing(block)) {
                value.putBytes(block);
            }
        }
        return value.toBytes();
    }

    private Object again(byte[] known, int slot) {
        Object memory = empty();
        if (known == null) {
            return memory;
        }
        long bytes = 0L;
        long values = 0L;
        for (scala.collection.Iterator all = log.get(); all.hasNext(); ) {
            byte[] value = (byte[]) all.next();
            bytes += value.length;
            values++;
            byte[] block = java.util.Arrays.copyOfRange(value, 1, value.length);
            if (value[0] == SNAPSHOT) {
                restore(memory, block);
            } else {
                List one = new ArrayList(1);
                one.add(block);
                take(memory, slot, one, null);
            }
        }
        if (bytes != Block.getLong(known, 8) || values != Block.getLong(known, 24)) {
            throw new IllegalStateException(damaged(slot) + "its log has " + values
                + " values of " + bytes + " bytes, and should have " + Block.getLong(known, 24) + " of "
                + Block.getLong(known, 8));
        }
        return memory;
    }

    private byte[] write(byte[] known, byte[] batch, Object memory, long number, long owner) {
        long bytes = (known == null ? 0L : Block.getLong(known, 8)) + batch.length;
        long snapshot = known == null ? 0L : Block.getLong(known, 16);
        long values = (known == null ? 0L : Block.getLong(known, 24)) + 1L;
        if (bytes > LOG_TO_SNAPSHOT * snapshot + LEAST_LOG) {
            byte[] all = new Block(1 << 12).putBytes(new byte[] {SNAPSHOT}).putBytes(snapshot(memory)).toBytes();
            log.put(new Object[] {all});
            bytes = all.length;
            snapshot = all.length;
            values = 1L;
        } else {
            log.appendValue(batch);
        }
        long token = 0L;
        while (token == 0L) {
            token = TOKENS.nextLong();
        }
        Block after = new Block(HEAD).putLong(token).putLong(bytes).putLong(snapshot).putLong(values);
        return after.putLong(number).putLong(owner).toBytes();
    }
}
