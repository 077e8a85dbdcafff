package bench;

import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;

/**
 * Looks every few milliseconds at what the threads of tasks are doing, and counts it by part: a stack is of the part that its
 * innermost frame with a rule has. Whoever waits for a socket does nothing.
 */
public final class Sampler extends Thread {
    private static final String TASKS = "Executor task launch";
    private static final String IDLE = "sun.nio.ch.EPoll";

    private final String[] rules;
    private final Map counts = new HashMap();
    private volatile boolean isOver;

    /** `rules` are beginnings of class names and their parts, by turns; what has no rule is of the part "". */
    public Sampler(String[] rules) {
        super("sampler");
        this.rules = rules;
        setDaemon(true);
    }

    public void run() {
        while (!isOver) {
            for (Iterator all = Thread.getAllStackTraces().entrySet().iterator(); all.hasNext(); ) {
                Map.Entry one = (Map.Entry) all.next();
                Thread thread = (Thread) one.getKey();
                StackTraceElement[] stack = (StackTraceElement[]) one.getValue();
                boolean runs = thread.getState() == Thread.State.RUNNABLE && stack.length > 0;
                if (runs && thread.getName().startsWith(TASKS) && !stack[0].getClassName().startsWith(IDLE)) {
                    count(part(stack));
                }
            }
            try {
                Thread.sleep(5L);
            } catch (InterruptedException end) {
                return;
            }
        }
    }

    private String part(StackTraceElement[] stack) {
        for (int at = 0; at < stack.length; at++) {
            for (int rule = 0; rule < rules.length; rule += 2) {
                if (stack[at].getClassName().startsWith(rules[rule])) {
                    return rules[rule + 1];
                }
            }
        }
        return "";
    }

    private void count(String part) {
        Integer before = (Integer) counts.get(part);
        counts.put(part, Integer.valueOf(before == null ? 1 : before.intValue() + 1));
    }

    /** End, and say how often each part was seen. */
    public Map end() throws InterruptedException {
        isOver = true;
        join();
        return counts;
    }
}
