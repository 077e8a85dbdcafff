package peer;

/** What topics and stores of one run are called. Python has made the topics. */
final class Names {
    final String application;
    final String drivers;
    final String riders;
    final String guests;
    final String arrivals;
    final String left;
    final String matches;
    final String positions = "positions";
    final String homes = "homes";

    Names(String application, String drivers, String riders) {
        this.application = application;
        this.drivers = drivers;
        this.riders = riders;
        this.guests = application + "-guests";
        this.arrivals = application + "-arrivals";
        this.left = application + "-left";
        this.matches = application + "-matches";
    }
}
