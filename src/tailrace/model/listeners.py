"""Callbacks for one event of an object, any number of them.

    partition.on_moved.add(self._moved)         register
    partition.on_moved.remove(self._moved)      unregister; a bound method equals itself
    partition.on_moved(partition)               notify: an event is a call, with the arguments that the type names

Listeners are called in the order in which they were added. They may add and remove listeners, also themselves: one that
is removed is not called any longer, one that is added is first called for the next event. An exception of a listener
ends the notification and reaches the caller.

`listeners` is for hot paths: testing it costs less than a call that finds it empty.

Who may call: the thread that owns the object. An event with one owner, known when the object is created, needs no
Listeners: the constructor takes a callback.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVarTuple

Arguments = TypeVarTuple("Arguments")


class Listeners(Generic[*Arguments]):
    __slots__ = ("listeners",)

    def __init__(self) -> None:
        self.listeners: tuple[Callable[[*Arguments], object], ...] = ()

    def add(self, listener: Callable[[*Arguments], object]) -> None:
        """A listener that is added twice is called twice."""
        self.listeners += (listener,)

    def remove(self, listener: Callable[[*Arguments], object]) -> None:
        """Once, if it was added several times; nothing happens if it is not there."""
        present = self.listeners
        try:
            index = present.index(listener)
        except ValueError:
            return
        self.listeners = present[:index] + present[index + 1 :]

    def clear(self) -> None:
        """Nothing is notified of later events."""
        self.listeners = ()

    def __call__(self, *arguments: *Arguments) -> None:
        """Notify."""
        present = self.listeners
        for listener in present:
            if self.listeners is present or listener in self.listeners:
                listener(*arguments)
