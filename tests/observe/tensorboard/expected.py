#!/usr/bin/env python3
"""Prints what events_test.cpp and record_file_test.cpp expect, as TensorBoard's own messages serialise it.

    .venv-test/bin/python tests/observe/tensorboard/expected.py"""
import struct

from tensorboard.compat.proto import event_pb2, histogram_pb2, summary_pb2, tensor_pb2, tensor_shape_pb2, types_pb2
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c
from tensorboard.plugins.hparams import api_pb2, metadata as hparams, plugin_data_pb2
from tensorboard.plugins.text import metadata as text

Event, Summary, Value = event_pb2.Event, summary_pb2.Summary, summary_pb2.Summary.Value


def show(name: str, message) -> None:
    print(name, message.SerializeToString().hex())


def strings(content: str):
    dimension = tensor_shape_pb2.TensorShapeProto.Dim(size=1)
    return tensor_pb2.TensorProto(dtype=types_pb2.DT_STRING, string_val=[content.encode()],
                                  tensor_shape=tensor_shape_pb2.TensorShapeProto(dim=[dimension]))


def session(tag: str, **data) -> Summary:
    metadata = hparams.create_summary_metadata(plugin_data_pb2.HParamsPluginData(**data))
    return Summary(value=[Value(tag=tag, tensor=hparams.NULL_TENSOR, metadata=metadata)])


def session_start(**value) -> Summary:
    start = plugin_data_pb2.SessionStartInfo(start_time_secs=1.5)
    for field, content in value.items():
        setattr(start.hparams["optim.x"], field, content)
    return session(hparams.SESSION_START_INFO_TAG, session_start_info=start)


show("version", Event(wall_time=1.5, file_version="brain.Event:2",
                      source_metadata=event_pb2.SourceMetadata(writer="accrue")))
show("restart", Event(wall_time=1.5, step=300, session_log=event_pb2.SessionLog(status=event_pb2.SessionLog.START)))
show("scalars", Event(wall_time=1.5, step=3, summary=Summary(value=[
    Value(tag="train/loss", simple_value=2.25), Value(tag="train/retries", simple_value=0)])))
show("text", Event(wall_time=1.5, step=1, summary=Summary(value=[
    Value(tag="plan", tensor=strings("*häh*"), metadata=text.create_summary_metadata("", ""))])))
show("histogram", Event(wall_time=1.5, step=2, summary=Summary(value=[
    Value(tag="weights/w", histo=histogram_pb2.HistogramProto(min=-1, max=2, num=3, sum=1.5, sum_squares=5.25,
                                                              bucket_limit=[-0.5, 1, 2.5], bucket=[1, 0, 2]))])))
show("session of false", Event(wall_time=1.5, step=1, summary=session_start(bool_value=False)))
show("session of 0.5", Event(wall_time=1.5, step=1, summary=session_start(number_value=0.5)))
show("session of adamw", Event(wall_time=1.5, step=1, summary=session_start(string_value="adamw")))
show("session done", Event(wall_time=9.5, step=7, summary=session(
    hparams.SESSION_END_INFO_TAG,
    session_end_info=plugin_data_pb2.SessionEndInfo(status=api_pb2.STATUS_SUCCESS, end_time_secs=9.5))))
data = b"123456789"
length = struct.pack("<Q", len(data))
print("record", (length + struct.pack("<I", masked_crc32c(length)) + data + struct.pack("<I", masked_crc32c(data))).hex())
