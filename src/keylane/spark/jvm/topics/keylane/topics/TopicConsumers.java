package keylane.topics;

import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import keylane.blocks.IdleCache;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/**
 * A consumer of a task, with what it has fetched beyond the end of its batch: the beginning of the next. Kept from batch
 * to batch by whoever reads the same topic as the same task, and closed when nobody does any more.
 */
final class TopicConsumers implements AutoCloseable {
    private static final IdleCache KEPT = new IdleCache("keylane consumers");
    private static final String BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer";

    final KafkaConsumer consumer;
    /** By partition: records that were fetched and not taken, and the offset that is taken next. */
    final Map ahead = new HashMap();
    final Map next = new HashMap();

    private TopicConsumers(KafkaConsumer consumer) {
        this.consumer = consumer;
    }

    /** No offset is ever chosen by a consumer: records that are gone are an error. */
    static KafkaConsumer consumer(HashMap given) {
        HashMap settings = new HashMap();
        settings.put("max.poll.records", "20000");
        settings.put("fetch.max.wait.ms", "20");
        settings.putAll(given);
        settings.put("key.deserializer", BYTES);
        settings.put("value.deserializer", BYTES);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "none");
        settings.put("isolation.level", "read_committed");
        settings.put("allow.auto.create.topics", "false");
        return new KafkaConsumer(settings);
    }

    /** All settings, and no hash of them: of two clusters with one hash one would be read for the other. */
    private static String prefix(HashMap settings, String topic) {
        return new TreeMap(settings).toString() + "/" + topic + "/";
    }

    static String name(TopicTask task) {
        return prefix(task.settings, task.topic) + task.number;
    }

    /** Close what a query that has ended left; where tasks ran elsewhere, it is closed when nobody takes it. */
    static void closeAll(HashMap settings, String topic) {
        IdleCache.dropEverywhere(prefix(settings, topic));
    }

    static TopicConsumers take(TopicTask task) {
        TopicConsumers kept = (TopicConsumers) KEPT.take(name(task));
        return kept == null ? new TopicConsumers(consumer(task.settings)) : kept;
    }

    static void giveBack(TopicTask task, TopicConsumers held) {
        KEPT.giveBack(name(task), held);
    }

    /** Assign the partitions of a task beside those that are assigned: to assign anew would drop what was fetched. */
    void assign(Set wanted) {
        if (!consumer.assignment().containsAll(wanted)) {
            Set all = new HashSet(consumer.assignment());
            all.addAll(wanted);
            consumer.assign(all);
        }
    }

    /** Go to an offset, unless the consumer is there; what was fetched beyond it, or null. */
    List moveTo(TopicPartition partition, long offset) {
        Long at = (Long) next.remove(partition);
        List fetched = (List) ahead.remove(partition);
        if (at != null && at.longValue() == offset) {
            return fetched;
        }
        consumer.seek(partition, offset);
        return null;
    }

    public void close() {
        consumer.close(Duration.ZERO);
    }
}
