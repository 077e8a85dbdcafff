package peer;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.StreamPartitioner;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

/**
 * Drivers near a rider, in Kafka Streams.
 *
 * <pre>
 * riders   -> copies, one in each lane that may hold a driver within the radius
 * drivers, copies, left -> Lane -> matches, arrivals
 * arrivals -> Homes -> left, in the lane that the driver was in
 * </pre>
 *
 * <p>Run by lines on its standard input: `start NAME`, `stop`. It prints its counts twenty times a second, and a last
 * line, which begins with `closed`, when what it had was flushed and committed. It ends with its standard input.
 */
public final class Peer {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.startsWith("start ")) {
                run(args, line.substring(6), in);
            }
        }
        System.exit(0);  // a thread of Kafka's may linger
    }

    private static void run(String[] args, String name, BufferedReader in) throws Exception {
        final Counts counts = new Counts();
        int lanes = Integer.parseInt(args[3]);
        Earth earth = new Earth(Double.parseDouble(args[4]), lanes);
        Names names = new Names(name, args[1], args[2]);
        KafkaStreams streams = new KafkaStreams(topology(names, earth, counts), settings(args[0], name, args[5]));
        streams.start();
        String line = null;
        while (line == null) {
            if (streams.state() == KafkaStreams.State.ERROR) {
                throw new IllegalStateException("a stream thread has died");
            }
            System.out.println(counts);
            Thread.sleep(50L);
            line = in.ready() ? in.readLine() : null;
        }
        streams.close(Duration.ofSeconds(60L));
        System.out.println("closed " + counts);
    }

    private static Properties settings(String bootstrap, String name, String state) {
        Properties out = new Properties();
        out.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        out.put(StreamsConfig.APPLICATION_ID_CONFIG, name);
        out.put(StreamsConfig.STATE_DIR_CONFIG, state);
        out.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, Integer.valueOf(Runtime.getRuntime().availableProcessors()));
        out.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        out.put(StreamsConfig.producerPrefix("compression.type"), "lz4");
        return out;
    }

    private static Topology topology(final Names names, final Earth earth, final Counts counts) {
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        StringDeserializer text = new StringDeserializer();
        StringSerializer textOut = new StringSerializer();
        ByteArraySerializer bytesOut = new ByteArraySerializer();
        Topology out = new Topology();
        out.addSource("riders", bytes, bytes, new String[] {names.riders});
        out.addSink("copies", names.copies, bytesOut, bytesOut, new ToLanesAround(earth, counts), new String[] {"riders"});
        out.addSource("drivers", bytes, bytes, new String[] {names.drivers, names.copies});
        out.addSource("left", text, bytes, new String[] {names.left});
        out.addProcessor("lane", new Supplier(names, earth, counts), new String[] {"drivers", "left"});
        out.addStateStore(store(names.positions), new String[] {"lane"});
        out.addSink(names.matches, names.matches, textOut, textOut, new String[] {"lane"});
        out.addSink(names.arrivals, names.arrivals, textOut, bytesOut, new String[] {"lane"});
        out.addSource("arrivals", text, bytes, new String[] {names.arrivals});
        out.addProcessor("homes", new Supplier(names, null, counts), new String[] {"arrivals"});
        out.addStateStore(store(names.homes), new String[] {"homes"});
        out.addSink(names.left, names.left, textOut, bytesOut, new ToItsLane(), new String[] {"homes"});
        return out;
    }

    private static StoreBuilder store(String name) {
        return Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(name), Serdes.String(), Serdes.ByteArray())
            .withCachingEnabled();
    }

    /** A Lane where there is an earth, else Homes: a lambda each, if the compiler knew lambdas. */
    private static final class Supplier implements ProcessorSupplier {
        private final Names names;
        private final Earth earth;
        private final Counts counts;

        Supplier(Names names, Earth earth, Counts counts) {
            this.names = names;
            this.earth = earth;
            this.counts = counts;
        }

        public Processor get() {
            return earth == null ? (Processor) new Homes(names, counts) : (Processor) new Lane(names, earth, counts);
        }
    }

    /** A request goes to every lane that may hold an answer; Kafka Streams writes a copy to each. */
    private static final class ToLanesAround implements StreamPartitioner {
        private final Earth earth;
        private final Counts counts;

        ToLanesAround(Earth earth, Counts counts) {
            this.earth = earth;
            this.counts = counts;
        }

        public Optional partitions(String topic, Object key, Object value, int lanes) {
            counts.began();
            Sighting request = Sighting.of(value);
            Set out = earth.lanesAround(request.lat, request.lng);
            counts.copies.add(out.size());
            counts.requests.increment();
            return Optional.of(out);
        }
    }

    /** Tombstones say which lane they are for. */
    private static final class ToItsLane implements StreamPartitioner {
        public Optional partitions(String topic, Object key, Object value, int lanes) {
            Set out = new java.util.HashSet();
            out.add(Integer.valueOf(Homes.lane((byte[]) value)));
            return Optional.of(out);
        }
    }
}
