package keylane.topics;

import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import keylane.blocks.RecordPacker;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Which records of a topic make a batch, and which tasks read them. On the driver. */
final class TopicStream implements MicroBatchStream, SupportsTriggerAvailableNow {
    /** So many records are worth a task of their own. */
    private static final long RECORDS_A_TASK = 20000L;

    private final String topic;
    private final long max;
    private final int tasks;
    private final long[] start;
    private final RecordPacker.Maker packer;
    private final HashMap settings = new HashMap();
    private KafkaConsumer consumer;
    private long[] last;

    TopicStream(CaseInsensitiveStringMap options, RecordPacker.Maker packer) {
        topic = options.get("topic");
        max = options.getLong("max", 1000000L);
        tasks = options.getInt("tasks", 1);
        String[] parts = options.get("start").split(",");
        start = new long[parts.length];
        for (int at = 0; at < parts.length; at++) {
            start[at] = Long.parseLong(parts[at]);
        }
        this.packer = packer;
        for (Iterator all = options.asCaseSensitiveMap().entrySet().iterator(); all.hasNext(); ) {
            Map.Entry one = (Map.Entry) all.next();
            String name = (String) one.getKey();
            if (name.startsWith("kafka.")) {
                settings.put(name.substring("kafka.".length()), one.getValue());
            }
        }
    }

    public Offset initialOffset() {
        return new TopicOffset(start, start, 0L);
    }

    public Offset deserializeOffset(String json) {
        return TopicOffset.of(json);
    }

    public ReadLimit getDefaultReadLimit() {
        return ReadLimit.maxRows(max);
    }

    public Offset latestOffset() {
        throw new UnsupportedOperationException("asked with a limit");
    }

    /** The ends that a run without following goes to. */
    public void prepareForTriggerAvailableNow() {
        last = ends();
    }

    private long[] ends() {
        try {
            return committedEnds();
        } catch (InterruptException stop) {
            // As Spark knows the end of a query that is stopped, and takes it for no failure.
            throw new UncheckedIOException(new InterruptedIOException(stop.getMessage()));
        }
    }

    /** As committed: what a transaction still holds open is not there yet. */
    private long[] committedEnds() {
        if (consumer == null) {
            consumer = TopicConsumers.consumer(settings);
        }
        int count = consumer.partitionsFor(topic).size();
        List all = new ArrayList();
        for (int partition = 0; partition < count; partition++) {
            all.add(new TopicPartition(topic, partition));
        }
        Map found = consumer.endOffsets(all);
        long[] ends = new long[count];
        for (int partition = 0; partition < count; partition++) {
            ends[partition] = ((Long) found.get(all.get(partition))).longValue();
        }
        return ends;
    }

    /** Each partition gets its share of what a batch may have, and at least a record where it has any. */
    public Offset latestOffset(Offset from, ReadLimit limit) {
        TopicOffset before = (TopicOffset) from;
        long[] ends = last == null ? ends() : last;
        if (ends.length < before.read.length) {
            throw new IllegalStateException("topic " + topic + " has fewer partitions than before: " + ends.length);
        }
        long unread = 0L;
        for (int partition = 0; partition < ends.length; partition++) {
            unread += Math.max(0L, ends[partition] - before.read(partition));
        }
        if (unread == 0L) {
            return before;
        }
        long[] read = new long[ends.length];
        for (int partition = 0; partition < ends.length; partition++) {
            long left = Math.max(0L, ends[partition] - before.read(partition));
            long share = unread <= max ? left : (long) Math.ceil((double) left * max / unread);
            read[partition] = before.read(partition) + Math.min(left, share);
        }
        return new TopicOffset(read, ends, System.currentTimeMillis() * 1000L);
    }

    /** The largest partition first, to the task that has the least. */
    public InputPartition[] planInputPartitions(Offset from, Offset to) {
        TopicOffset before = (TopicOffset) from;
        TopicOffset after = (TopicOffset) to;
        List ranges = new ArrayList();
        long records = 0L;
        for (int partition = 0; partition < after.read.length; partition++) {
            long many = after.read[partition] - before.read(partition);
            if (many > 0L) {
                long unread = Math.max(0L, after.end[partition] - after.read[partition]);
                ranges.add(new TopicRange(partition, before.read(partition), after.read[partition], unread));
                records += many;
            }
        }
        Object[] sorted = ranges.toArray();
        Arrays.sort(sorted, new Largest());
        int wanted = (int) Math.max(1L, Math.min(tasks, records / RECORDS_A_TASK));
        List[] parts = new List[wanted];
        long[] load = new long[wanted];
        for (int at = 0; at < sorted.length; at++) {
            int least = 0;
            for (int other = 1; other < wanted; other++) {
                least = load[other] < load[least] ? other : least;
            }
            TopicRange range = (TopicRange) sorted[at];
            if (parts[least] == null) {
                parts[least] = new ArrayList();
            }
            parts[least].add(range);
            load[least] += range.to - range.from;
        }
        List out = new ArrayList();
        for (int at = 0; at < wanted; at++) {
            if (parts[at] != null) {
                TopicRange[] own = (TopicRange[]) parts[at].toArray(new TopicRange[0]);
                out.add(new TopicTask(topic, settings, own, at, after.clock, packer));
            }
        }
        return (InputPartition[]) out.toArray(new InputPartition[0]);
    }

    private static final class Largest implements Comparator {
        public int compare(Object one, Object other) {
            TopicRange a = (TopicRange) one;
            TopicRange b = (TopicRange) other;
            int order = Long.compare(b.to - b.from, a.to - a.from);
            return order != 0 ? order : Integer.compare(a.partition, b.partition);
        }
    }

    public PartitionReaderFactory createReaderFactory() {
        return new TopicReaders();
    }

    public void commit(Offset end) {
        // Spark's own log of offsets says how far a query is.
    }

    public void stop() {
        TopicConsumers.closeAll(settings, topic);
        if (consumer != null) {
            consumer.close(java.time.Duration.ZERO);
            consumer = null;
        }
    }
}
