#pragma once

#include <filesystem>
#include <memory>

namespace accrue::train {

/// While it exists, writes what every thread of the run does and waits for into a file for Perfetto
/// and chrome://tracing (Trace Event Format, JSON array of complete events, microseconds):
///
///   data: load, data: wait          the loader's thread; the training thread waiting for it
///   micro-batch, close window       forward and backward; replay and mean
///   optimizer step, evaluation, log
///   checkpoint: write, checkpoint: wait
///
/// They come from at::RecordFunction's user scopes, so a user's own RECORD_USER_SCOPE is included.
/// A span is written when it ends: a run that is killed leaves a readable file. There is one trace
/// at a time (usage Error); the thread that creates it is the training thread.
class Trace {
 public:
  /// Creates a new file: throws a usage Error if anything of that name exists, and a runtime Error
  /// if it cannot be created. Later failures (a full disk) only omit parts, with a warning at the
  /// end: the run continues. If no span ended, the file is removed again.
  explicit Trace(const std::filesystem::path& file);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accrue::train
