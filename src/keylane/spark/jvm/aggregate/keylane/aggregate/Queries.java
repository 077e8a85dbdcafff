package keylane.aggregate;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectOutputStream;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.QueryPlanningTracker;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.BindReferences;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Like;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.expressions.RLike;
import org.apache.spark.sql.catalyst.expressions.Unevaluable;
import org.apache.spark.sql.catalyst.expressions.UserDefinedExpression;
import org.apache.spark.sql.catalyst.expressions.WindowExpression;
import org.apache.spark.sql.catalyst.expressions.With;
import org.apache.spark.sql.catalyst.optimizer.ConstantFolding$;
import org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions$;
import org.apache.spark.sql.catalyst.optimizer.UnwrapCastInBinaryComparison$;
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.NullType;
import org.apache.spark.sql.types.NumericType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The queries of a batch, made ready on the driver: every expression parsed by Spark, compared with the functions that are
 * allowed, analysed and optimized once for all queries, and bound to the columns of the events. A query that does not fit
 * these events, as one that compares a text with a number, is left out and named; the others are as if it were not there.
 */
public final class Queries implements Serializable {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** Expressions that are analysed to a clock, or to who runs this. */
    private static final Pattern READERS = Pattern.compile(
        "Current.*|Now|Local(Time|Timestamp)|.*UnixTimestamp\\(\\)|VariableReference|InputFile.*|SparkPartitionID");
    /** Texts that are a clock where they become a time. */
    private static final Pattern CLOCK = Pattern.compile("(?is)\\s*(now|today|tomorrow|yesterday)\\b.*");
    /** The same where Spark's parser makes a time of them at once. */
    private static final Pattern TYPED = Pattern.compile(
        "(?is).*\\b(date|timestamp(_ntz|_ltz)?)\\s*['\"]\\s*(now|today|tomorrow|yesterday)\\b.*");

    final byte[] queries;
    final String name;
    private final transient Map types = new LinkedHashMap();
    private final transient Map errors = new LinkedHashMap();

    public Queries(Dataset events, String definitions, String allowed) throws IOException {
        Set functions = new HashSet((List) JSON.readValue(allowed, List.class));
        List given = (List) JSON.readValue(definitions, List.class);
        Map texts = new LinkedHashMap();
        List kept = new ArrayList();
        for (int at = 0; at < given.size(); at++) {
            Map one = (Map) given.get(at);
            String problem = null;
            Map own = new LinkedHashMap();
            List wanted = texts(one);
            for (int i = 0; i < wanted.size() && problem == null; i++) {
                if (!texts.containsKey(wanted.get(i))) {
                    problem = parsed((String) wanted.get(i), functions, own);
                }
            }
            if (problem != null) {
                errors.put((String) one.get("id"), problem);
                continue;
            }
            texts.putAll(own);
            kept.add(one);
        }
        Map bound = new HashMap();
        Map failed = new HashMap();
        List left = resolveQuickly(events, texts, bound);
        resolve(events, left, bound, failed);
        List ready = new ArrayList();
        for (int at = 0; at < kept.size(); at++) {
            Map one = (Map) kept.get(at);
            try {
                ready.add(made(one, bound, failed));
            } catch (IllegalArgumentException unfit) {
                errors.put((String) one.get("id"), unfit.getMessage());
            }
        }
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        ObjectOutputStream out = new ObjectOutputStream(bytes);
        out.writeObject(ready.toArray());
        out.close();
        queries = bytes.toByteArray();
        name = java.util.Arrays.hashCode(queries) + "/" + queries.length + "/" + System.identityHashCode(queries);
    }

    /**
     * As JSON, for a walk over a list of Java's costs Python dozens of calls: `types`, of each query those of its group, then
     * of its aggregates' arguments, an empty one for count(*); and `errors`, why a query does not fit these events.
     */
    public String facts() throws IOException {
        Map found = new LinkedHashMap();
        found.put("types", types);
        found.put("errors", errors);
        return JSON.writeValueAsString(found);
    }

    private static List texts(Map one) {
        List found = new ArrayList();
        found.add(one.get("filter"));
        found.addAll((List) one.get("groups"));
        List aggregates = (List) one.get("aggregates");
        for (int at = 0; at < aggregates.size(); at++) {
            Object argument = ((Map) aggregates.get(at)).get("argument");
            if (argument != null) {
                found.add(argument);
            }
        }
        return found;
    }

    /** Parse an expression by Spark's own parser: why it is not allowed; null where it is. */
    private static String parsed(String text, Set functions, Map expressions) {
        try {
            Expression found = CatalystSqlParser$.MODULE$.parseExpression(text);
            expressions.put(text, found);
            if (TYPED.matcher(text).matches()) {
                return "not allowed: it reads a clock";
            }
            return problem(found, functions);
        } catch (Exception error) {
            return firstLine(error);
        }
    }

    private static String problem(Expression one, Set functions) {
        if (one instanceof PlanExpression || one instanceof WindowExpression || one instanceof UserDefinedExpression) {
            return "not allowed in an expression: " + one.getClass().getSimpleName();
        }
        if (one instanceof UnresolvedFunction) {
            String function = ((UnresolvedFunction) one).nameParts().mkString(".").toLowerCase(java.util.Locale.ROOT);
            if (!functions.contains(function)) {
                return "not an allowed function: " + function;
            }
        }
        String found = null;
        for (scala.collection.Iterator all = one.children().iterator(); found == null && all.hasNext(); ) {
            found = problem((Expression) all.next(), functions);
        }
        return found;
    }

    /**
     * Analyse all at once and apply the few rules that an expression needs for being evaluated and looked up: the whole
     * optimizer costs a multiple, in every start and with every change of the queries. What is left for it are expressions
     * that it has to rewrite, and all of them where one fails.
     */
    private static List resolveQuickly(Dataset events, Map texts, Map bound) {
        List left = new ArrayList();
        try {
            org.apache.spark.sql.classic.Dataset classic = (org.apache.spark.sql.classic.Dataset) events;
            List aliases = new ArrayList(texts.size());
            for (Iterator all = texts.values().iterator(); all.hasNext(); ) {
                aliases.add(new Alias((Expression) all.next(), "c" + aliases.size(), NamedExpression$.MODULE$.newExprId(),
                    (scala.collection.immutable.Seq) scala.collection.immutable.Nil$.MODULE$, scala.Option.empty(),
                    (scala.collection.immutable.Seq) scala.collection.immutable.Nil$.MODULE$));
            }
            LogicalPlan plan = new Project(
                scala.jdk.javaapi.CollectionConverters.asScala(aliases).toList(), classic.queryExecution().analyzed());
            plan = classic.sparkSession().sessionState().analyzer().executeAndCheck(plan, new QueryPlanningTracker(
                scala.Option.empty()));
            plan = ConstantFolding$.MODULE$.apply(ReplaceExpressions$.MODULE$.apply(plan));
            plan = UnwrapCastInBinaryComparison$.MODULE$.apply(plan);
            Project project = (Project) plan;
            scala.collection.immutable.Seq input = project.child().output();
            Iterator names = texts.keySet().iterator();
            for (int at = 0; names.hasNext(); at++) {
                Object text = names.next();
                Expression found = ((Alias) project.projectList().apply(at)).child();
                Expression ready = !found.deterministic() ? found : BindReferences.bindReference(found,
                    org.apache.spark.sql.catalyst.expressions.package$.MODULE$.AttributeSeq(input), false);
                if (ready.deterministic() && isEvaluable(ready)) {
                    bound.put(text, steady(ready));
                } else {
                    left.add(text);
                }
            }
            return left;
        } catch (Exception error) {
            bound.clear();
            return new ArrayList(texts.keySet());
        }
    }

    private static boolean isEvaluable(Expression one) {
        boolean evaluable = !(one instanceof Unevaluable) && !(one instanceof With);
        for (scala.collection.Iterator all = one.children().iterator(); evaluable && all.hasNext(); ) {
            evaluable = isEvaluable((Expression) all.next());
        }
        return evaluable;
    }

    /** Analyse and optimize all at once; where that fails, in halves, until those that fail are alone. */
    private static void resolve(Dataset events, List texts, Map bound, Map failed) {
        if (texts.isEmpty()) {
            return;
        }
        try {
            Column[] columns = new Column[texts.size()];
            for (int at = 0; at < columns.length; at++) {
                columns[at] = functions.expr((String) texts.get(at)).as("c" + at);
            }
            org.apache.spark.sql.execution.QueryExecution execution =
                ((org.apache.spark.sql.classic.Dataset) events.select(columns)).queryExecution();
            // The optimizer makes a constant of a clock: what reads one is found before it.
            Project analyzed = (Project) execution.analyzed();
            List others = new ArrayList();
            for (int at = 0; at < columns.length; at++) {
                if (readsClock((Expression) analyzed.projectList().apply(at))) {
                    failed.put(texts.get(at), "not allowed: it reads a clock, or who runs it");
                } else {
                    others.add(texts.get(at));
                }
            }
            if (others.size() < columns.length) {
                resolve(events, others, bound, failed);
                return;
            }
            LogicalPlan plan = execution.optimizedPlan();
            Project project = (Project) plan;
            scala.collection.immutable.Seq input = project.child().output();
            for (int at = 0; at < columns.length; at++) {
                Expression found = ((Alias) project.projectList().apply(at)).child();
                if (!found.deterministic()) {
                    failed.put(texts.get(at), "not allowed: it gives another value each time");
                } else {
                    bound.put(texts.get(at), steady(BindReferences.bindReference(found,
                        org.apache.spark.sql.catalyst.expressions.package$.MODULE$.AttributeSeq(input), false)));
                }
            }
        } catch (Exception error) {
            if (texts.size() == 1) {
                failed.put(texts.get(0), firstLine(error));
                return;
            }
            resolve(events, texts.subList(0, texts.size() / 2), bound, failed);
            resolve(events, texts.subList(texts.size() / 2, texts.size()), bound, failed);
        }
    }

    private static boolean readsClock(Expression one) {
        boolean reads = READERS.matcher(one.getClass().getSimpleName()).matches();
        if (one instanceof Cast && ((Cast) one).child() instanceof Literal && ((Literal) ((Cast) one).child()).value() != null) {
            String type = one.dataType().simpleString();
            String text = ((Literal) ((Cast) one).child()).value().toString();
            reads |= (type.equals("date") || type.startsWith("timestamp")) && CLOCK.matcher(text).matches();
        }
        for (scala.collection.Iterator all = one.children().iterator(); !reads && all.hasNext(); ) {
            reads = readsClock((Expression) all.next());
        }
        return reads;
    }

    /**
     * The same expression with each `like` in the form that takes a time that grows with the text alone. Spark's own tries
     * every way in which the parts of a pattern may lie in a text: `%a%a%a%a%a%a%a%b` takes a minute for sixty letters.
     */
    private static Expression steady(Expression one) {
        Expression own = one;
        if (one instanceof Like && ((Like) one).right() instanceof Literal) {
            Object pattern = ((Literal) ((Like) one).right()).value();
            String regex = pattern == null || ((Like) one).escapeChar() != '\\' ? null : steady(pattern.toString());
            if (regex != null) {
                own = new RLike(((Like) one).left(), new Literal(UTF8String.fromString(regex), DataTypes.StringType));
            }
        }
        return (Expression) own.mapChildren(new scala.runtime.AbstractFunction1() {
            public Object apply(Object child) {
                return steady((Expression) child);
            }
        });
    }

    /**
     * A pattern of `like` as a regular expression without a way back: each part is taken where it comes first, which is as
     * good a place as any later one, and the last at the end. Null for a pattern that Spark is to refuse.
     */
    static String steady(String pattern) {
        List parts = new ArrayList();
        StringBuilder part = new StringBuilder();
        for (int at = 0; at < pattern.length(); ) {
            int c = pattern.codePointAt(at);
            at += Character.charCount(c);
            if (c == '%') {
                parts.add(part.toString());
                part.setLength(0);
            } else if (c == '_') {
                part.append('.');
            } else {
                if (c == '\\') {
                    if (at == pattern.length() || "_%\\".indexOf(pattern.charAt(at)) < 0) {
                        return null;
                    }
                    c = pattern.charAt(at++);
                }
                part.append(Pattern.quote(new String(Character.toChars(c))));
            }
        }
        parts.add(part.toString());
        StringBuilder regex = new StringBuilder("(?s)\\A").append(parts.get(0));
        for (int at = 1; at < parts.size() - 1; at++) {
            if (((String) parts.get(at)).length() > 0) {
                regex.append("(?>.*?").append(parts.get(at)).append(')');
            }
        }
        if (parts.size() > 1) {
            regex.append(".*").append(parts.get(parts.size() - 1));
        }
        return regex.append("\\z").toString();
    }

    private static String firstLine(Exception error) {
        String text = String.valueOf(error.getMessage());
        int end = text.indexOf('\n', 1);
        return (end < 0 ? text : text.substring(0, end)).trim();
    }

    private Query made(Map one, Map bound, Map failed) {
        Query query = new Query((String) one.get("id"), (int) number(one, "time"), (String) one.get("time_name"),
            number(one, "window"), number(one, "slide"), number(one, "lateness"),
            ((Boolean) one.get("corrects")).booleanValue());
        query.filter = expression((String) one.get("filter"), bound, failed);
        // Of a field that no event has: it is null, and matches nothing.
        if (!(query.filter.dataType() instanceof BooleanType || query.filter.dataType() instanceof NullType)) {
            throw new IllegalArgumentException("the filter is no condition: its type is "
                + query.filter.dataType().simpleString());
        }
        List own = new ArrayList();
        List groups = (List) one.get("groups");
        query.groups = new Expression[groups.size()];
        for (int at = 0; at < query.groups.length; at++) {
            query.groups[at] = expression((String) groups.get(at), bound, failed);
            own.add(kept(query.groups[at].dataType(), "group_by"));
        }
        List aggregates = (List) one.get("aggregates");
        query.kinds = new byte[aggregates.size()];
        query.arguments = new Expression[aggregates.size()];
        query.given = new double[aggregates.size()][];
        for (int at = 0; at < query.kinds.length; at++) {
            Map aggregate = (Map) aggregates.get(at);
            query.kinds[at] = (byte) ((String) aggregate.get("kind")).charAt(0);
            if (aggregate.get("argument") != null) {
                query.arguments[at] = expression((String) aggregate.get("argument"), bound, failed);
                own.add(type(query.kinds[at], query.arguments[at].dataType()));
            } else {
                own.add("");
            }
            List given = (List) aggregate.get("given");
            query.given[at] = new double[given.size()];
            for (int i = 0; i < query.given[at].length; i++) {
                query.given[at][i] = ((Number) given.get(i)).doubleValue();
            }
        }
        types.put(query.id, own);
        return query;
    }

    private static long number(Map one, String name) {
        return ((Number) one.get(name)).longValue();
    }

    private static Expression expression(String text, Map bound, Map failed) {
        if (failed.containsKey(text)) {
            throw new IllegalArgumentException((String) failed.get(text));
        }
        return (Expression) bound.get(text);
    }

    private static String type(byte kind, DataType type) {
        boolean needsNumber = kind == Aggregate.SUM || kind == Aggregate.AVERAGE || kind == Aggregate.QUANTILES;
        if (needsNumber && !(type instanceof NumericType || type instanceof NullType)) {
            throw new IllegalArgumentException("a sum, an average and a quantile are of numbers, and this is of "
                + type.simpleString());
        }
        return kind == Aggregate.COUNT ? "" : kept(type, "an aggregate");
    }

    private static String kept(DataType type, String what) {
        boolean isKept = type instanceof NumericType || type instanceof BooleanType || type instanceof DecimalType
            || type.equals(DataTypes.DateType) || type.equals(DataTypes.TimestampType)
            || type.equals(DataTypes.TimestampNTZType) || type.equals(DataTypes.StringType) || type instanceof NullType;
        if (!isKept) {
            throw new IllegalArgumentException(what + " takes numbers, text, booleans and times, and this is "
                + type.simpleString());
        }
        return type.simpleString();
    }
}
