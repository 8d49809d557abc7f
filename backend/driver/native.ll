; What native.py compiles: cells and columns, as described there. {Function.field} stands for a field's offset in a
; function's argument struct; @python.* are the Python functions that do what is not done here.

@graveyard = internal global ptr null
@always_ready = global ptr null

define void @bury(ptr %cell) {
entry:
  %none = icmp eq ptr %cell, null
  br i1 %none, label %done, label %check
check:
  %immortal.address = getelementptr i64, ptr %cell, i64 2
  %immortal = load i64, ptr %immortal.address
  %mortal = icmp eq i64 %immortal, 0
  br i1 %mortal, label %look, label %done
look:
  %column.address = getelementptr i64, ptr %cell, i64 3
  %column = load ptr, ptr %column.address
  %alone = icmp eq ptr %column, null
  br i1 %alone, label %push, label %member
push:
  call void @push_dead(ptr %cell)
  br label %done
member:
  %callback.address = getelementptr i64, ptr %cell, i64 4
  %callback = load i64, ptr %callback.address
  %idle = icmp eq i64 %callback, 0
  br i1 %idle, label %return, label %drop
return:
  %given.address = getelementptr i64, ptr %cell, i64 6
  store atomic i64 0, ptr %given.address release, align 8
  br label %drop
drop:
  call void @drop(ptr %column)
  br label %done
done:
  ret void
}

define void @push_dead(ptr %cell) {
entry:
  %link = getelementptr i64, ptr %cell, i64 1
  br label %retry
retry:
  %head = load atomic ptr, ptr @graveyard monotonic, align 8
  store ptr %head, ptr %link
  %swap = cmpxchg ptr @graveyard, ptr %head, ptr %cell release monotonic
  %swapped = extractvalue { ptr, i1 } %swap, 1
  br i1 %swapped, label %done, label %retry
done:
  ret void
}

define void @drop(ptr %column) {
entry:
  %held = getelementptr i64, ptr %column, i64 4
  %before = atomicrmw sub ptr %held, i64 1 acq_rel
  %last = icmp eq i64 %before, 1
  br i1 %last, label %dead, label %done
dead:
  call void @push_dead(ptr %column)
  br label %done
done:
  ret void
}

define ptr @destroy(ptr %arguments) {
  %field = getelementptr i8, ptr %arguments, i64 16
  %cell = load ptr, ptr %field
  call void @bury(ptr %cell)
  ret ptr null
}

define ptr @exhume() {
  %head = atomicrmw xchg ptr @graveyard, ptr null acquire
  ret ptr %head
}

define ptr @nothing(ptr %arguments) {
  ret ptr null
}

define i64 @state(ptr %cell) {
  %column.address = getelementptr i64, ptr %cell, i64 3
  %column = load ptr, ptr %column.address
  %alone = icmp eq ptr %column, null
  br i1 %alone, label %unknown, label %member
member:
  %state.address = getelementptr i64, ptr %column, i64 5
  %state = load atomic i64, ptr %state.address acquire, align 8
  ret i64 %state
unknown:
  ret i64 0
}

define ptr @PJRT_Buffer_ReadyEvent(ptr %arguments) {
entry:
  %buffer.address = getelementptr i8, ptr %arguments, i64 {ReadyEvent.buffer}
  %buffer = load ptr, ptr %buffer.address
  %event.address = getelementptr i8, ptr %arguments, i64 {ReadyEvent.event}
  %state = call i64 @state(ptr %buffer)
  %ready = icmp eq i64 %state, 1
  br i1 %ready, label %always, label %own
always:
  %shared = load ptr, ptr @always_ready
  store ptr %shared, ptr %event.address
  ret ptr null
own:
  %given.address = getelementptr i64, ptr %buffer, i64 14
  %swap = cmpxchg ptr %given.address, i64 0, i64 1 acq_rel monotonic
  %swapped = extractvalue { i64, i1 } %swap, 1
  br i1 %swapped, label %give, label %python
give:
  %column.address = getelementptr i64, ptr %buffer, i64 3
  %column = load ptr, ptr %column.address
  %held = getelementptr i64, ptr %column, i64 4
  %before = atomicrmw add ptr %held, i64 1 acq_rel
  %event = getelementptr i64, ptr %buffer, i64 8
  store ptr %event, ptr %event.address
  ret ptr null
python:
  %function = load ptr, ptr @python.PJRT_Buffer_ReadyEvent
  %error = call ptr %function(ptr %arguments)
  ret ptr %error
}

define ptr @PJRT_Event_IsReady(ptr %arguments) {
entry:
  %event.address = getelementptr i8, ptr %arguments, i64 {IsReady.event}
  %event = load ptr, ptr %event.address
  %state = call i64 @state(ptr %event)
  %ready = icmp eq i64 %state, 1
  br i1 %ready, label %yes, label %python
yes:
  %answer = getelementptr i8, ptr %arguments, i64 {IsReady.is_ready}
  store i8 1, ptr %answer
  ret ptr null
python:
  %function = load ptr, ptr @python.PJRT_Event_IsReady
  %error = call ptr %function(ptr %arguments)
  ret ptr %error
}

define ptr @PJRT_Event_Error(ptr %arguments) {
entry:
  %event.address = getelementptr i8, ptr %arguments, i64 {Error.event}
  %event = load ptr, ptr %event.address
  %state = call i64 @state(ptr %event)
  %ready = icmp eq i64 %state, 1
  br i1 %ready, label %none, label %python
none:
  ret ptr null
python:
  %function = load ptr, ptr @python.PJRT_Event_Error
  %error = call ptr %function(ptr %arguments)
  ret ptr %error
}

define ptr @PJRT_Event_Await(ptr %arguments) {
entry:
  %event.address = getelementptr i8, ptr %arguments, i64 {Await.event}
  %event = load ptr, ptr %event.address
  %state = call i64 @state(ptr %event)
  %ready = icmp eq i64 %state, 1
  br i1 %ready, label %none, label %python
none:
  ret ptr null
python:
  %function = load ptr, ptr @python.PJRT_Event_Await
  %error = call ptr %function(ptr %arguments)
  ret ptr %error
}

define ptr @PJRT_Event_OnReady(ptr %arguments) {
entry:
  %event.address = getelementptr i8, ptr %arguments, i64 {OnReady.event}
  %event = load ptr, ptr %event.address
  %callback.address = getelementptr i8, ptr %arguments, i64 {OnReady.callback}
  %callback = load ptr, ptr %callback.address
  %argument.address = getelementptr i8, ptr %arguments, i64 {OnReady.user_arg}
  %argument = load ptr, ptr %argument.address
  %state = call i64 @state(ptr %event)
  switch i64 %state, label %python [i64 1, label %now
                                    i64 3, label %later]
now:
  call void %callback(ptr null, ptr %argument)
  ret ptr null
later:
  %waits = call i64 @wait(ptr %event, ptr %callback, ptr %argument)
  %waiting = icmp eq i64 %waits, 1
  br i1 %waiting, label %done, label %over
over:
  %state.then = call i64 @state(ptr %event)
  %ready.then = icmp eq i64 %state.then, 1
  br i1 %ready.then, label %now, label %python
done:
  ret ptr null
python:
  %function = load ptr, ptr @python.PJRT_Event_OnReady
  %error = call ptr %function(ptr %arguments)
  ret ptr %error
}

define i64 @wait(ptr %event, ptr %callback, ptr %argument) {
entry:
  %column.address = getelementptr i64, ptr %event, i64 3
  %column = load ptr, ptr %column.address
  %waiters = getelementptr i64, ptr %column, i64 6
  %link = getelementptr i64, ptr %event, i64 1
  %callback.address = getelementptr i64, ptr %event, i64 4
  %argument.address = getelementptr i64, ptr %event, i64 5
  store ptr %callback, ptr %callback.address
  store ptr %argument, ptr %argument.address
  br label %retry
retry:
  %head = load atomic i64, ptr %waiters acquire, align 8
  %closed = icmp eq i64 %head, 1
  br i1 %closed, label %late, label %push
push:
  store i64 %head, ptr %link
  %event.number = ptrtoint ptr %event to i64
  %swap = cmpxchg ptr %waiters, i64 %head, i64 %event.number acq_rel monotonic
  %swapped = extractvalue { i64, i1 } %swap, 1
  br i1 %swapped, label %done, label %retry
late:
  store ptr null, ptr %callback.address
  ret i64 0
done:
  ret i64 1
}

define i64 @close(ptr %column, i64 %outcome) {
  %state = getelementptr i64, ptr %column, i64 5
  store atomic i64 %outcome, ptr %state release, align 8
  %waiters = getelementptr i64, ptr %column, i64 6
  %head = atomicrmw xchg ptr %waiters, i64 1 acq_rel
  ret i64 %head
}

define void @tell(ptr %column) {
entry:
  %first = call i64 @close(ptr %column, i64 1)
  br label %check
check:
  %waiter.number = phi i64 [%first, %entry], [%next, %call]
  %none = icmp eq i64 %waiter.number, 0
  br i1 %none, label %done, label %call
call:
  %waiter = inttoptr i64 %waiter.number to ptr
  %link = getelementptr i64, ptr %waiter, i64 1
  %next = load i64, ptr %link
  %callback.address = getelementptr i64, ptr %waiter, i64 4
  %callback = load ptr, ptr %callback.address
  %argument.address = getelementptr i64, ptr %waiter, i64 5
  %argument = load ptr, ptr %argument.address
  store ptr null, ptr %callback.address
  call void %callback(ptr null, ptr %argument)
  br label %check
done:
  call void @drop(ptr %column)
  ret void
}

define void @settle(ptr %column) {
  %state = getelementptr i64, ptr %column, i64 5
  %swap = cmpxchg ptr %state, i64 0, i64 1 acq_rel monotonic
  ret void
}

define void @hold(ptr %column) {
  %held = getelementptr i64, ptr %column, i64 4
  %before = atomicrmw add ptr %held, i64 1 acq_rel
  ret void
}

define void @fill(ptr %block, i64 %count, ptr %column, ptr %places, ptr %rows, i64 %index, i64 %given) {
entry:
  br label %check
check:
  %i = phi i64 [0, %entry], [%following, %write]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %buffer, label %done
buffer:
  %offset = mul i64 %i, 16
  %cell = getelementptr i64, ptr %block, i64 %offset
  %event = getelementptr i64, ptr %cell, i64 8
  %place.offset = mul i64 %i, 2
  %place = getelementptr i64, ptr %places, i64 %place.offset
  %device = load i64, ptr %place
  %memory.address = getelementptr i64, ptr %place, i64 1
  %memory = load i64, ptr %memory.address
  %cell0 = getelementptr i64, ptr %cell, i64 0
  store i64 0, ptr %cell0
  %cell2 = getelementptr i64, ptr %cell, i64 2
  store i64 0, ptr %cell2
  %cell3 = getelementptr i64, ptr %cell, i64 3
  store ptr %column, ptr %cell3
  %cell4 = getelementptr i64, ptr %cell, i64 4
  store i64 %device, ptr %cell4
  %cell5 = getelementptr i64, ptr %cell, i64 5
  store i64 %memory, ptr %cell5
  %cell6 = getelementptr i64, ptr %cell, i64 6
  store i64 0, ptr %cell6
  %cell7 = getelementptr i64, ptr %cell, i64 7
  store i64 %i, ptr %cell7
  store i64 1, ptr %event
  %event2 = getelementptr i64, ptr %event, i64 2
  store i64 0, ptr %event2
  %event3 = getelementptr i64, ptr %event, i64 3
  store ptr %column, ptr %event3
  %event4 = getelementptr i64, ptr %event, i64 4
  store i64 0, ptr %event4
  %event6 = getelementptr i64, ptr %event, i64 6
  store i64 %given, ptr %event6
  %event7 = getelementptr i64, ptr %event, i64 7
  store i64 %i, ptr %event7
  %as.event = icmp eq i64 %given, 1
  br i1 %as.event, label %event.out, label %buffer.out
event.out:
  %event.place = getelementptr ptr, ptr %rows, i64 %i
  store ptr %event, ptr %event.place
  br label %write
buffer.out:
  %row.address = getelementptr ptr, ptr %rows, i64 %i
  %row = load ptr, ptr %row.address
  %buffer.place = getelementptr ptr, ptr %row, i64 %index
  store ptr %cell, ptr %buffer.place
  br label %write
write:
  %following = add i64 %i, 1
  br label %check
done:
  ret void
}

define i64 @collect(ptr %rows, i64 %count, i64 %width, ptr %columns) {
entry:
  br label %next.argument
next.argument:
  %a = phi i64 [0, %entry], [%following.a, %store]
  %deleted.before = phi i64 [0, %entry], [%deleted.now, %store]
  %more.arguments = icmp ult i64 %a, %width
  br i1 %more.arguments, label %argument, label %done
argument:
  %first.row = load ptr, ptr %rows
  %first.address = getelementptr ptr, ptr %first.row, i64 %a
  %first = load ptr, ptr %first.address
  %column.address = getelementptr i64, ptr %first, i64 3
  %column = load ptr, ptr %column.address
  %size.address = getelementptr i64, ptr %column, i64 7
  %size = load i64, ptr %size.address
  %fits = icmp eq i64 %size, %count
  br label %next.core
next.core:
  %i = phi i64 [0, %argument], [%following.i, %core]
  %whole = phi i1 [%fits, %argument], [%whole.now, %core]
  %deleted = phi i64 [%deleted.before, %argument], [%deleted.so.far, %core]
  %more.cores = icmp ult i64 %i, %count
  br i1 %more.cores, label %core, label %store.in
core:
  %row.address = getelementptr ptr, ptr %rows, i64 %i
  %row = load ptr, ptr %row.address
  %cell.address = getelementptr ptr, ptr %row, i64 %a
  %cell = load ptr, ptr %cell.address
  %its.column.address = getelementptr i64, ptr %cell, i64 3
  %its.column = load ptr, ptr %its.column.address
  %its.deleted.address = getelementptr i64, ptr %cell, i64 6
  %its.deleted = load i64, ptr %its.deleted.address
  %its.position.address = getelementptr i64, ptr %cell, i64 7
  %its.position = load i64, ptr %its.position.address
  %same = icmp eq ptr %its.column, %column
  %ordered = icmp eq i64 %its.position, %i
  %fitting = and i1 %same, %ordered
  %whole.now = and i1 %whole, %fitting
  %deleted.so.far = or i64 %deleted, %its.deleted
  %following.i = add i64 %i, 1
  br label %next.core
store.in:
  br label %store
store:
  %deleted.now = phi i64 [%deleted, %store.in]
  %found = select i1 %whole, ptr %column, ptr null
  %place = getelementptr ptr, ptr %columns, i64 %a
  store ptr %found, ptr %place
  %following.a = add i64 %a, 1
  br label %next.argument
done:
  ret i64 %deleted.before
}

define void @mark(ptr %rows, i64 %count, i64 %index) {
entry:
  br label %check
check:
  %i = phi i64 [0, %entry], [%following, %cell]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %cell, label %done
cell:
  %row.address = getelementptr ptr, ptr %rows, i64 %i
  %row = load ptr, ptr %row.address
  %buffer.address = getelementptr ptr, ptr %row, i64 %index
  %buffer = load ptr, ptr %buffer.address
  %deleted = getelementptr i64, ptr %buffer, i64 6
  store i64 1, ptr %deleted
  %following = add i64 %i, 1
  br label %check
done:
  ret void
}

define ptr @get_user_data(ptr %memory, ptr %key) {
entry:
  %table.address = getelementptr i64, ptr %memory, i64 6
  %table = load ptr, ptr %table.address
  br label %check
check:
  %entry.address = phi ptr [%table, %entry], [%following, %next]
  %its.key = load ptr, ptr %entry.address
  %found = icmp eq ptr %its.key, %key
  br i1 %found, label %yes, label %other
other:
  %end = icmp eq ptr %its.key, null
  br i1 %end, label %no, label %next
next:
  %following = getelementptr i64, ptr %entry.address, i64 2
  br label %check
yes:
  %value.address = getelementptr i64, ptr %entry.address, i64 1
  %value = load ptr, ptr %value.address
  ret ptr %value
no:
  ret ptr null
}
