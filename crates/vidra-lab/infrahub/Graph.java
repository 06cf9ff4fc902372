import static org.neo4j.configuration.GraphDatabaseSettings.pagecache_memory;
import static org.neo4j.configuration.GraphDatabaseSettings.preallocate_logical_logs;

import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;
import org.neo4j.configuration.connectors.BoltConnector;
import org.neo4j.configuration.helpers.SocketAddress;
import org.neo4j.dbms.api.DatabaseManagementServiceBuilder;
import org.neo4j.io.ByteUnit;

/** Serves a Neo4j database over Bolt on loopback until it is asked to end: {@code Graph <directory> <port>}. */
public final class Graph {
    private Graph() {}

    public static void main(String[] arguments) throws InterruptedException {
        var directory = Path.of(arguments[0]);
        var bolt = new SocketAddress("127.0.0.1", Integer.parseInt(arguments[1]));
        var service = new DatabaseManagementServiceBuilder(directory)
                .setConfig(BoltConnector.enabled, true)
                .setConfig(BoltConnector.listen_address, bolt)
                .setConfig(BoltConnector.advertised_address, bolt)
                // A throw-away database: little memory, no disk space in advance.
                .setConfig(pagecache_memory, ByteUnit.mebiBytes(256))
                .setConfig(preallocate_logical_logs, false)
                .build();
        Runtime.getRuntime().addShutdownHook(new Thread(service::shutdown));
        System.out.println("graph is served on " + bolt);
        new CountDownLatch(1).await();
    }
}
