package gadget

import java.io.{Externalizable, ObjectInput, ObjectOutput}
import java.lang.reflect.{InvocationHandler, Method}

import org.apache.hadoop.io.Writable

/**
 * A class of nobody's package that does something when it is read back: what a deserialisation
 * attack brings.
 */
class Gadget extends Serializable {
  private def readObject(in: java.io.ObjectInputStream): Unit = {
    in.defaultReadObject()
    Gadget.ran = true
  }
}

object Gadget {
  @volatile var ran = false
}

/** What chains end in where they name a class of their own: each leaves a mark and does no more. */
class MarkingWritable(var mark: String) extends Writable {
  def this() = this("")
  override def write(out: java.io.DataOutput): Unit = out.writeUTF(mark)
  override def readFields(in: java.io.DataInput): Unit = {
    mark = in.readUTF()
    Mark.leave(mark)
  }
}

class MarkingExternalizable(var mark: String) extends Externalizable {
  def this() = this("")
  override def writeExternal(out: ObjectOutput): Unit = out.writeUTF(mark)
  override def readExternal(in: ObjectInput): Unit = {
    mark = in.readUTF()
    Mark.leave(mark)
  }
}

class MarkingHandler(mark: String) extends InvocationHandler with Serializable {
  override def invoke(proxy: AnyRef, method: Method, arguments: Array[AnyRef]): AnyRef = {
    if (method.getName == "compare") Mark.leave(mark)
    Integer.valueOf(0)
  }
}

/** What a chain leaves behind, where everybody can see it: a system property. */
object Mark {
  def leave(mark: String): Unit = System.setProperty(mark, "ran")
  def left(mark: String): Boolean = System.getProperty(mark) == "ran"
  def clear(mark: String): Unit = System.clearProperty(mark)
}
