package keylane.aggregate;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectStreamClass;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Which queries an event may match, by the equality parts of their filters: of `type = 'click' and amount > 10` an event
 * whose type is another is never compared with the amount.
 *
 * <p>Rule: a filter is a list of conditions joined by `and`. Those of the form column = literal (or in a list of literals) of
 * text, whole numbers, dates and booleans can be looked up; of several in one filter the one whose column has the most
 * values over all queries is. An event looks up its value in each such column once, and evaluates what is left of the
 * filters found there; filters without such a condition are evaluated for every event. So the cost of an event grows with
 * the queries that share its values, not with all queries. One for each task.
 */
final class Matcher {
    /** The types that are looked up, in the order of `value`. */
    static final DataType[] LOOKED_UP = {DataTypes.StringType, DataTypes.LongType, DataTypes.IntegerType, DataTypes.DateType,
        DataTypes.ShortType, DataTypes.ByteType, DataTypes.BooleanType};

    final Query[] queries;
    /** Of each query what its aggregates take of an event, for the event at hand. */
    final Object[][] values;
    /** What is left of each filter; null where the look-up has decided it. */
    private final Expression[] rest;
    private final int[] columns;
    /** How a value of each column is taken out of a row: `InternalRow.get` looks its type up anew for every row. */
    private final int[] getters;
    /** Of each column: value -> the numbers of queries. */
    private final Map[] found;
    private final int[] always;

    Matcher(Query[] queries) {
        this.queries = queries;
        this.values = new Object[queries.length][];
        for (int at = 0; at < queries.length; at++) {
            this.values[at] = new Object[queries[at].kinds.length];
        }
        rest = new Expression[queries.length];
        Map values = new TreeMap();
        List conditions = new ArrayList();
        for (int at = 0; at < queries.length; at++) {
            List own = new ArrayList();
            split(queries[at].filter, own);
            conditions.add(own);
            for (int i = 0; i < own.size(); i++) {
                Equality equality = Equality.of((Expression) own.get(i));
                if (equality != null) {
                    Integer column = Integer.valueOf(equality.column);
                    if (!values.containsKey(column)) {
                        values.put(column, new HashSet());
                    }
                    ((Set) values.get(column)).addAll(equality.values);
                }
            }
        }
        Map index = new TreeMap();
        Map kinds = new TreeMap();
        List others = new ArrayList();
        for (int at = 0; at < queries.length; at++) {
            place(at, (List) conditions.get(at), values, index, kinds, others);
        }
        columns = new int[index.size()];
        getters = new int[index.size()];
        found = new Map[index.size()];
        int number = 0;
        for (Iterator all = index.entrySet().iterator(); all.hasNext(); number++) {
            Map.Entry one = (Map.Entry) all.next();
            columns[number] = ((Integer) one.getKey()).intValue();
            getters[number] = getter((DataType) kinds.get(one.getKey()));
            found[number] = numbers((Map) one.getValue());
        }
        always = ints(others);
    }

    private void place(int query, List conditions, Map values, Map index, Map kinds, List others) {
        Equality best = null;
        int chosen = -1;
        for (int i = 0; i < conditions.size(); i++) {
            Equality equality = Equality.of((Expression) conditions.get(i));
            if (equality != null && (best == null || many(values, equality) > many(values, best))) {
                best = equality;
                chosen = i;
            }
        }
        for (int i = 0; i < conditions.size(); i++) {
            if (i != chosen) {
                Expression condition = (Expression) conditions.get(i);
                rest[query] = rest[query] == null ? condition : new And(rest[query], condition);
            }
        }
        if (best == null) {
            others.add(Integer.valueOf(query));
            return;
        }
        Integer column = Integer.valueOf(best.column);
        if (!index.containsKey(column)) {
            index.put(column, new HashMap());
            kinds.put(column, best.type);
        }
        Map entries = (Map) index.get(column);
        for (Iterator all = best.values.iterator(); all.hasNext(); ) {
            Object value = all.next();
            List there = (List) entries.get(value);
            if (there == null) {
                there = new ArrayList();
                entries.put(value, there);
            }
            there.add(Integer.valueOf(query));
        }
    }

    private static int many(Map values, Equality equality) {
        return ((Set) values.get(Integer.valueOf(equality.column))).size();
    }

    private static Map numbers(Map lists) {
        Map made = new HashMap(lists.size() * 2);
        for (Iterator all = lists.entrySet().iterator(); all.hasNext(); ) {
            Map.Entry one = (Map.Entry) all.next();
            made.put(one.getKey(), ints((List) one.getValue()));
        }
        return made;
    }

    private static int[] ints(List numbers) {
        int[] made = new int[numbers.size()];
        for (int at = 0; at < made.length; at++) {
            made[at] = ((Integer) numbers.get(at)).intValue();
        }
        return made;
    }

    private static void split(Expression filter, List conditions) {
        if (filter instanceof And) {
            split(((And) filter).left(), conditions);
            split(((And) filter).right(), conditions);
        } else {
            conditions.add(filter);
        }
    }

    /** How many lists of candidates an event has. */
    int lists() {
        return columns.length + 1;
    }

    /** A list of queries that an event may match; null for none. */
    int[] candidates(InternalRow row, int list) {
        if (list == columns.length) {
            return always;
        }
        int column = columns[list];
        return row.isNullAt(column) ? null : (int[]) found[list].get(value(row, column, getters[list]));
    }

    private static int getter(DataType type) {
        for (int at = 0; at < LOOKED_UP.length; at++) {
            if (LOOKED_UP[at].equals(type)) {
                return at;
            }
        }
        throw new IllegalArgumentException("not looked up: " + type.simpleString());
    }

    private static Object value(InternalRow row, int column, int getter) {
        switch (getter) {
            case 0:
                return row.getUTF8String(column);
            case 1:
                return Long.valueOf(row.getLong(column));
            case 2:
            case 3:
                return Integer.valueOf(row.getInt(column));
            case 4:
                return Short.valueOf(row.getShort(column));
            case 5:
                return Byte.valueOf(row.getByte(column));
            default:
                return Boolean.valueOf(row.getBoolean(column));
        }
    }

    /** Whether an event that is a candidate of a query matches it. */
    boolean matches(InternalRow row, int query) {
        return rest[query] == null || Boolean.TRUE.equals(rest[query].eval(row));
    }

    /** How many queries are compared with every event. */
    int compared() {
        return always.length;
    }

    /** A condition that can be looked up: a column and the values that it may have. */
    private static final class Equality {
        int column;
        DataType type;
        Set values = new HashSet();

        static Equality of(Expression condition) {
            Equality made = new Equality();
            return made.take(condition) && !made.values.isEmpty() ? made : null;
        }

        private boolean take(Expression condition) {
            if (condition instanceof EqualTo) {
                Expression left = ((EqualTo) condition).left();
                Expression right = ((EqualTo) condition).right();
                return add(left, right) || add(right, left);
            }
            if (condition instanceof Or) {
                return take(((Or) condition).left()) && take(((Or) condition).right());
            }
            if (condition instanceof In) {
                boolean fits = true;
                for (scala.collection.Iterator all = ((In) condition).list().iterator(); fits && all.hasNext(); ) {
                    fits = add(((In) condition).value(), (Expression) all.next());
                }
                return fits;
            }
            if (condition instanceof InSet) {
                boolean fits = isColumn(((InSet) condition).child());
                for (scala.collection.Iterator all = ((InSet) condition).hset().iterator(); fits && all.hasNext(); ) {
                    fits = put((BoundReference) ((InSet) condition).child(), all.next());
                }
                return fits;
            }
            return false;
        }

        private boolean add(Expression one, Expression other) {
            return isColumn(one) && other instanceof Literal && one.dataType().equals(other.dataType())
                && put((BoundReference) one, ((Literal) other).value());
        }

        private boolean put(BoundReference of, Object value) {
            if (value == null || !values.isEmpty() && column != of.ordinal()) {
                return false;
            }
            column = of.ordinal();
            type = of.dataType();
            values.add(value instanceof UTF8String ? ((UTF8String) value).copy() : value);
            return true;
        }

        private static boolean isColumn(Expression one) {
            if (!(one instanceof BoundReference)) {
                return false;
            }
            return Arrays.asList(LOOKED_UP).contains(one.dataType());
        }
    }

    static Matcher of(byte[] queries) {
        try {
            Object[] read = (Object[]) new Objects(queries).readObject();
            return new Matcher((Query[]) Arrays.copyOf(read, read.length, Query[].class));
        } catch (Exception error) {
            throw new IllegalStateException("queries that cannot be read", error);
        }
    }

    /** By the loader of these classes, and then by that of the thread, which knows all classes of a session. */
    private static final class Objects extends ObjectInputStream {
        Objects(byte[] bytes) throws IOException {
            super(new ByteArrayInputStream(bytes));
        }

        protected Class resolveClass(ObjectStreamClass described) throws IOException, ClassNotFoundException {
            try {
                return Class.forName(described.getName(), false, Matcher.class.getClassLoader());
            } catch (ClassNotFoundException other) {
                try {
                    return Class.forName(described.getName(), false, Thread.currentThread().getContextClassLoader());
                } catch (ClassNotFoundException basic) {
                    return super.resolveClass(described);
                }
            }
        }
    }
}
