import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Kafka's own assignors, asked line by line: a group in, who owns which partition out, and the processor's nanoseconds.
 *
 * No lambda and no type parameter, because Janino compiles it where there is no JDK.
 */
public final class Oracle {
    private static final PrintStream OUT = new PrintStream(System.out, false);
    private static final OperatingSystemMXBean SYSTEM =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private final Map counts = new LinkedHashMap();
    private final Map racks = new HashMap();
    private final List members = new ArrayList();

    /** One member, as it was read. */
    static final class Reader {
        String id;
        String instance;
        String rack;
        int generation;
        List topics = new ArrayList();
        List owned = new ArrayList();
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        Oracle group = new Oracle();
        String line;
        while ((line = in.readLine()) != null) {
            String[] words = line.split("\t");
            if (words[0].equals("topic")) {
                group.counts.put(words[1], Integer.valueOf(words[2]));
            } else if (words[0].equals("racks")) {
                group.racks.put(new TopicPartition(words[1], Integer.parseInt(words[2])), words[3].split(","));
            } else if (words[0].equals("member")) {
                Reader reader = new Reader();
                reader.id = words[1];
                reader.instance = words[2].equals("-") ? null : words[2];
                reader.rack = words[3].equals("-") ? null : words[3];
                reader.generation = Integer.parseInt(words[4]);
                group.members.add(reader);
            } else if (words[0].equals("reads")) {
                for (int i = 1; i < words.length; i++) {
                    group.last().topics.add(words[i]);
                }
            } else if (words[0].equals("owns")) {
                for (int i = 2; i < words.length; i++) {
                    group.last().owned.add(new TopicPartition(words[1], Integer.parseInt(words[i])));
                }
            } else if (words[0].equals("assign")) {
                group.answer(words[1]);
                OUT.flush();
                group = new Oracle();
            } else if (words[0].equals("timed")) {
                Timing.print(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]), Integer.parseInt(words[4]), OUT);
                OUT.flush();
            }
        }
    }

    private Reader last() {
        return (Reader) members.get(members.size() - 1);
    }

    private void answer(String name) throws Exception {
        Map found = name.equals("uniform") ? uniform() : classic(name);
        for (Iterator each = found.entrySet().iterator(); each.hasNext();) {
            Map.Entry entry = (Map.Entry) each.next();
            StringBuilder text = new StringBuilder("owner\t").append(entry.getKey());
            for (Iterator lanes = ((Collection) entry.getValue()).iterator(); lanes.hasNext();) {
                TopicPartition lane = (TopicPartition) lanes.next();
                text.append('\t').append(lane.topic()).append('\t').append(lane.partition());
            }
            OUT.println(text);
        }
        OUT.println("end");
    }

    static AbstractPartitionAssignor named(String name) {
        if (name.equals("range")) {
            return new RangeAssignor();
        }
        if (name.equals("round-robin")) {
            return new RoundRobinAssignor();
        }
        return name.equals("sticky") ? (AbstractPartitionAssignor) new StickyAssignor() : new CooperativeStickyAssignor();
    }

    private Map classic(String name) throws Exception {
        Map infos = new HashMap();
        for (Iterator each = counts.entrySet().iterator(); each.hasNext();) {
            Map.Entry entry = (Map.Entry) each.next();
            infos.put(entry.getKey(), partitions((String) entry.getKey(), ((Integer) entry.getValue()).intValue()));
        }
        Map subscriptions = new HashMap();
        for (Iterator each = members.iterator(); each.hasNext();) {
            Reader reader = (Reader) each.next();
            ByteBuffer data = null;
            if (reader.generation >= 0) {
                data = name.equals("sticky") ? ownership(reader.owned, reader.generation) : number(reader.generation);
            }
            ConsumerPartitionAssignor.Subscription made = new ConsumerPartitionAssignor.Subscription(
                reader.topics, data, reader.owned, reader.generation, Optional.ofNullable(reader.rack));
            made.setGroupInstanceId(Optional.ofNullable(reader.instance));
            subscriptions.put(reader.id, made);
        }
        return named(name).assignPartitions(infos, subscriptions);
    }

    private List partitions(String topic, int count) {
        List found = new ArrayList();
        for (int i = 0; i < count; i++) {
            String[] there = (String[]) racks.get(new TopicPartition(topic, i));
            Node[] copies = new Node[there == null ? 0 : there.length];
            for (int n = 0; n < copies.length; n++) {
                copies[n] = new Node(Math.abs(there[n].hashCode()), "broker", 9092, there[n]);
            }
            found.add(new PartitionInfo(topic, i, copies.length == 0 ? Node.noNode() : copies[0], copies, copies));
        }
        return found;
    }

    static ByteBuffer number(int generation) {
        ByteBuffer data = ByteBuffer.allocate(4);
        data.putInt(generation);
        data.flip();
        return data;
    }

    /** What a member that runs the sticky assignor sends about itself: the assignor writes it. */
    static ByteBuffer ownership(List owned, int generation) {
        StickyAssignor writer = new StickyAssignor();
        writer.onAssignment(
            new ConsumerPartitionAssignor.Assignment(owned),
            new ConsumerGroupMetadata("group", generation, "member", Optional.empty()));
        return writer.subscriptionUserData(Collections.EMPTY_SET);
    }

    private Map uniform() {
        Map ids = new HashMap();
        Map names = new HashMap();
        Map sizes = new HashMap();
        for (Iterator each = counts.entrySet().iterator(); each.hasNext();) {
            Map.Entry entry = (Map.Entry) each.next();
            Uuid id = new Uuid(1L, (long) (ids.size() + 1));
            ids.put(entry.getKey(), id);
            names.put(id, entry.getKey());
            sizes.put(id, entry.getValue());
        }
        Map specs = new HashMap();
        Map owners = new HashMap();
        Set first = null;
        boolean alike = true;
        for (Iterator each = members.iterator(); each.hasNext();) {
            Reader reader = (Reader) each.next();
            Set topics = new HashSet();
            for (Iterator some = reader.topics.iterator(); some.hasNext();) {
                topics.add(ids.get(some.next()));
            }
            first = first == null ? topics : first;
            alike = alike && first.equals(topics);
            Map owned = new HashMap();
            for (Iterator some = reader.owned.iterator(); some.hasNext();) {
                TopicPartition lane = (TopicPartition) some.next();
                Uuid id = (Uuid) ids.get(lane.topic());
                if (!owned.containsKey(id)) {
                    owned.put(id, new HashSet());
                }
                ((Set) owned.get(id)).add(Integer.valueOf(lane.partition()));
                if (!owners.containsKey(id)) {
                    owners.put(id, new HashMap());
                }
                ((Map) owners.get(id)).put(Integer.valueOf(lane.partition()), reader.id);
            }
            specs.put(reader.id, new MemberSubscriptionAndAssignmentImpl(
                Optional.ofNullable(reader.rack), Optional.ofNullable(reader.instance), topics, new Assignment(owned)));
        }
        SubscriptionType type = alike ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        GroupAssignment made = new UniformAssignor().assign(new GroupSpecImpl(specs, type, owners), new Sizes(sizes));
        Map found = new HashMap();
        for (Iterator each = made.members().entrySet().iterator(); each.hasNext();) {
            Map.Entry entry = (Map.Entry) each.next();
            List lanes = new ArrayList();
            Map given = ((MemberAssignment) entry.getValue()).partitions();
            for (Iterator some = given.entrySet().iterator(); some.hasNext();) {
                Map.Entry one = (Map.Entry) some.next();
                for (Iterator indexes = ((Set) one.getValue()).iterator(); indexes.hasNext();) {
                    lanes.add(new TopicPartition((String) names.get(one.getKey()), ((Integer) indexes.next()).intValue()));
                }
            }
            found.put(entry.getKey(), lanes);
        }
        return found;
    }

    static long processor() {
        return SYSTEM.getProcessCpuTime();
    }

    /** How many partitions the topics have; no copy is in any rack. */
    static final class Sizes implements SubscribedTopicDescriber {
        private final Map sizes;

        Sizes(Map sizes) {
            this.sizes = sizes;
        }

        public int numPartitions(Uuid topic) {
            Integer found = (Integer) sizes.get(topic);
            return found == null ? -1 : found.intValue();
        }

        public Set racksForPartition(Uuid topic, int partition) {
            return Collections.EMPTY_SET;
        }
    }
}
