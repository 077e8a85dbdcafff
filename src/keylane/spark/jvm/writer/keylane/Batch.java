package keylane;

import java.io.File;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.spark.sql.Row;

/**
 * One batch as one of its writers sees it: who the writer is, which slots it may write, and what its units are called.
 *
 * <p>By part a writer has one unit, a partition of the source, and may write every lane. By lane every slot is a unit,
 * and writer W of N has the slots W, W + N, W + 2N and so on.
 */
final class Batch {
    final long number;
    /** Of its offsets in the source: another batch with the same number has another. */
    final String digest;
    final boolean exactlyOnce;
    final Map producer;
    final Map reader;
    final long transactionMs;
    final RecordHeader[] headers;
    final String source;
    /** Topic and lane of each slot. */
    final TopicPartition[] slots;
    /** The partition of the source that this writer has; -1 when it has lanes. */
    final int part;
    final int writer;
    final int writers;
    /** How the writer is called in errors; its transaction; the group that keeps its numbers. */
    final String shown;
    final String name;
    final String group;
    private final String held;

    Batch(HashMap settings, Row first) {
        number = ((Number) settings.get("batch")).longValue();
        digest = (String) settings.get("digest");
        exactlyOnce = ((Boolean) settings.get("exactly_once")).booleanValue();
        producer = (Map) settings.get("producer");
        reader = (Map) settings.get("reader");
        transactionMs = ((Number) settings.get("transaction_ms")).longValue();
        writers = ((Number) settings.get("writers")).intValue();
        source = (String) settings.get("source");
        held = (String) settings.get("held");
        headers = headers((List) settings.get("headers"));
        slots = slots((List) settings.get("topics"));
        part = writers == 0 ? first.getInt(6) : -1;
        writer = writers == 0 ? -1 : first.getInt(0) % writers;
        shown = writers == 0 ? "p" + part : "" + writer;
        String route = "keylane-" + settings.get("route");
        name = route + "-" + shown;
        group = writers == 0 ? name : route;
    }

    private static RecordHeader[] headers(List pairs) {
        RecordHeader[] out = new RecordHeader[pairs.size()];
        for (int at = 0; at < out.length; at++) {
            List pair = (List) pairs.get(at);
            out[at] = new RecordHeader((String) pair.get(0), (byte[]) pair.get(1));
        }
        return out;
    }

    private static TopicPartition[] slots(List topics) {
        List out = new ArrayList();
        for (int at = 0; at < topics.size(); at++) {
            List topic = (List) topics.get(at);
            int lanes = ((Number) topic.get(1)).intValue();
            for (int lane = 0; lane < lanes; lane++) {
                out.add(new TopicPartition((String) topic.get(0), lane));
            }
        }
        return (TopicPartition[]) out.toArray(new TopicPartition[0]);
    }

    /** Refuse a row of another writer: it would be written by somebody whom nobody fences. */
    void check(Row row) {
        if (part >= 0 ? row.getInt(6) != part : row.getInt(0) % writers != writer) {
            throw WriteError.permanent("a task has records of two writers, and writes for " + shown + " only");
        }
    }

    /** The units of this writer, as the places where their numbers are kept. */
    List places() {
        List out = new ArrayList();
        for (int slot = part >= 0 ? 0 : writer; slot < slots.length; slot += part >= 0 ? slots.length : writers) {
            out.add(slots[slot]);
        }
        return out;
    }

    /** The place that has the number of a slot's unit: any place will do for a partition, whose group is its own. */
    TopicPartition placeOf(int slot) {
        return part >= 0 ? slots[0] : slots[slot];
    }

    String unit(TopicPartition place) {
        return part >= 0 ? "partition " + part : place.topic() + " lane " + place.partition();
    }

    /** A step that tests may want to see, or to hold a writer at: `STEP WRITER.hold` says from which batch on. */
    void at(String step) throws Exception {
        if (held.isEmpty()) {
            return;
        }
        String name = step + " " + shown;
        File hold = new File(held, name + ".hold");
        if (hold.exists() && number >= Long.parseLong(new String(Files.readAllBytes(hold.toPath()), "UTF-8"))) {
            Files.write(new File(held, name).toPath(), Long.toString(number).getBytes("UTF-8"));
            while (hold.exists()) {
                Thread.sleep(20L);
            }
        }
    }
}
