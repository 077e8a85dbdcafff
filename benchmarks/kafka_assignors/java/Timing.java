import java.io.PrintStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/** A first assignment and one after a member has left, with the processor's nanoseconds of each. */
final class Timing {
    private Timing() {
    }

    static void print(String name, int topics, int lanes, int members, PrintStream out) throws Exception {
        long[] took = name.equals("uniform") ? uniform(topics, lanes, members) : classic(name, topics, lanes, members);
        out.println("timed\t" + took[0] + "\t" + took[1] + "\t" + took[2]);
    }

    private static String topic(int number) {
        return "topic-" + (10000 + number);
    }

    private static String member(int number) {
        return "member-" + (100000 + number);
    }

    private static long[] classic(String name, int topics, int lanes, int members) throws Exception {
        AbstractPartitionAssignor assignor = Oracle.named(name);
        Map counts = new HashMap();
        List names = new ArrayList();
        for (int t = 0; t < topics; t++) {
            names.add(topic(t));
            counts.put(topic(t), Integer.valueOf(lanes));
        }
        Map first = new HashMap();
        for (int m = 0; m < members; m++) {
            first.put(member(m), new ConsumerPartitionAssignor.Subscription(names));
        }
        long begin = Oracle.processor();
        Map before = assignor.assign(counts, first);
        long middle = Oracle.processor();
        before.remove(member(0));
        Map second = new HashMap();
        for (Iterator each = before.entrySet().iterator(); each.hasNext();) {
            Map.Entry entry = (Map.Entry) each.next();
            List owned = (List) entry.getValue();
            second.put(entry.getKey(), new ConsumerPartitionAssignor.Subscription(
                names, name.equals("sticky") ? Oracle.ownership(owned, 1) : Oracle.number(1), owned, 1, Optional.empty()));
        }
        long again = Oracle.processor();
        Map after = assignor.assign(counts, second);
        long end = Oracle.processor();
        long kept = 0;
        for (Iterator each = after.entrySet().iterator(); each.hasNext();) {
            Map.Entry entry = (Map.Entry) each.next();
            Set owned = new HashSet((List) before.get(entry.getKey()));
            for (Iterator some = ((List) entry.getValue()).iterator(); some.hasNext();) {
                kept += owned.contains(some.next()) ? 1L : 0L;
            }
        }
        return new long[] {middle - begin, end - again, kept};
    }

    private static long[] uniform(int topics, int lanes, int members) {
        Map sizes = new HashMap();
        for (int t = 0; t < topics; t++) {
            sizes.put(new Uuid(1L, (long) (t + 1)), Integer.valueOf(lanes));
        }
        Set all = new HashSet(sizes.keySet());
        Map first = new HashMap();
        for (int m = 0; m < members; m++) {
            first.put(member(m), new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), Optional.empty(), all, Assignment.EMPTY));
        }
        Oracle.Sizes described = new Oracle.Sizes(sizes);
        long begin = Oracle.processor();
        GroupAssignment before = new UniformAssignor().assign(
            new GroupSpecImpl(first, SubscriptionType.HOMOGENEOUS, new HashMap()), described);
        long middle = Oracle.processor();
        Map second = new HashMap();
        Map owners = new HashMap();
        for (Iterator each = before.members().entrySet().iterator(); each.hasNext();) {
            Map.Entry entry = (Map.Entry) each.next();
            if (entry.getKey().equals(member(0))) {
                continue;
            }
            Map owned = ((MemberAssignment) entry.getValue()).partitions();
            second.put(entry.getKey(), new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), Optional.empty(), all, new Assignment(owned)));
            for (Iterator some = owned.entrySet().iterator(); some.hasNext();) {
                Map.Entry one = (Map.Entry) some.next();
                if (!owners.containsKey(one.getKey())) {
                    owners.put(one.getKey(), new HashMap());
                }
                for (Iterator indexes = ((Set) one.getValue()).iterator(); indexes.hasNext();) {
                    ((Map) owners.get(one.getKey())).put(indexes.next(), entry.getKey());
                }
            }
        }
        long again = Oracle.processor();
        GroupAssignment after = new UniformAssignor().assign(
            new GroupSpecImpl(second, SubscriptionType.HOMOGENEOUS, owners), described);
        long end = Oracle.processor();
        long kept = 0;
        for (Iterator each = after.members().entrySet().iterator(); each.hasNext();) {
            Map.Entry entry = (Map.Entry) each.next();
            Map owned = ((MemberAssignment) entry.getValue()).partitions();
            for (Iterator some = owned.entrySet().iterator(); some.hasNext();) {
                Map.Entry one = (Map.Entry) some.next();
                Map of = (Map) owners.get(one.getKey());
                for (Iterator indexes = ((Set) one.getValue()).iterator(); indexes.hasNext();) {
                    kept += entry.getKey().equals(of.get(indexes.next())) ? 1L : 0L;
                }
            }
        }
        return new long[] {middle - begin, end - again, kept};
    }
}
