package peer;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.HashSet;
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
 * fan      riders -> guests, a copy in every other lane that may hold a driver within the radius
 * lanes    drivers, riders, guests, left -> Lane -> matches, arrivals
 *          arrivals -> Homes -> left, in the lane that the driver was in
 * </pre>
 *
 * <p>Of the partitions that a task reads Kafka Streams takes the record with the least time, so pings and requests that
 * are both there are processed in the order of their event times. That is why the two parts can be run in turn.
 *
 * <p>Run by lines on its standard input: `fan NAME`, `lanes NAME`, `stop`. It prints its counts twenty times a second,
 * and a last line, which begins with `closed`, when what it had was flushed and committed. It ends with its input.
 */
public final class Peer {
    private static final ByteArrayDeserializer BYTES = new ByteArrayDeserializer();
    private static final StringDeserializer TEXT = new StringDeserializer();
    private static final ByteArraySerializer BYTES_OUT = new ByteArraySerializer();
    private static final StringSerializer TEXT_OUT = new StringSerializer();

    public static void main(String[] args) throws Exception {
        Earth earth = new Earth(Double.parseDouble(args[4]), Integer.parseInt(args[3]));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String part = line.substring(0, line.indexOf(' '));
            Names names = new Names(line.substring(part.length() + 1), args[1], args[2]);
            Counts counts = new Counts();
            Topology topology = part.equals("fan") ? fan(names, earth, counts) : lanes(names, earth, counts);
            run(new KafkaStreams(topology, settings(args[0], names.application + "-" + part, args[5])), counts, in);
        }
        System.exit(0);  // a thread of Kafka's may linger
    }

    private static void run(KafkaStreams streams, Counts counts, BufferedReader in) throws Exception {
        streams.start();
        while (!in.ready()) {
            if (streams.state() == KafkaStreams.State.ERROR) {
                throw new IllegalStateException("a stream thread has died");
            }
            System.out.println(counts);
            Thread.sleep(50L);
        }
        in.readLine();
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

    private static Topology fan(Names names, Earth earth, Counts counts) {
        Topology out = new Topology();
        out.addSource("riders", BYTES, BYTES, new String[] {names.riders});
        ToOtherLanes lanes = new ToOtherLanes(earth, counts);
        out.addSink("guests", names.guests, BYTES_OUT, BYTES_OUT, lanes, new String[] {"riders"});
        return out;
    }

    private static Topology lanes(Names names, Earth earth, Counts counts) {
        Topology out = new Topology();
        out.addSource("places", BYTES, BYTES, new String[] {names.drivers, names.riders, names.guests});
        out.addSource("left", TEXT, BYTES, new String[] {names.left});
        out.addProcessor("lane", new Supplier(names, earth, counts), new String[] {"places", "left"});
        out.addStateStore(store(names.positions), new String[] {"lane"});
        out.addSink(names.matches, names.matches, TEXT_OUT, TEXT_OUT, new String[] {"lane"});
        out.addSink(names.arrivals, names.arrivals, TEXT_OUT, BYTES_OUT, new String[] {"lane"});
        out.addSource("arrivals", TEXT, BYTES, new String[] {names.arrivals});
        out.addProcessor("homes", new Supplier(names, null, counts), new String[] {"arrivals"});
        out.addStateStore(store(names.homes), new String[] {"homes"});
        out.addSink(names.left, names.left, TEXT_OUT, BYTES_OUT, new ToItsLane(), new String[] {"homes"});
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

    /**
     * A request is asked in every lane that may hold an answer. Its home lane reads it as it is, since both inputs
     * have the same lanes; Kafka Streams writes a copy to each of the others, and none where there are none.
     */
    private static final class ToOtherLanes implements StreamPartitioner {
        private final Earth earth;
        private final Counts counts;

        ToOtherLanes(Earth earth, Counts counts) {
            this.earth = earth;
            this.counts = counts;
        }

        public Optional partitions(String topic, Object key, Object value, int lanes) {
            counts.began();
            Sighting request = Sighting.of(value);
            Set out = earth.lanesAround(request.lat, request.lng);
            out.remove(Integer.valueOf(earth.home(request.lat, request.lng)));
            counts.guests.add(out.size());
            counts.requests.increment();
            counts.ended();
            return Optional.of(out);
        }
    }

    /** Tombstones say which lane they are for. */
    private static final class ToItsLane implements StreamPartitioner {
        public Optional partitions(String topic, Object key, Object value, int lanes) {
            Set out = new HashSet();
            out.add(Integer.valueOf(Homes.lane((byte[]) value)));
            return Optional.of(out);
        }
    }
}
