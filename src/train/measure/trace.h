#pragma once

#include <filesystem>
#include <memory>

namespace accrue::train {

/// While it lives, writes what every thread of the run does and waits for into a file that Perfetto
/// and chrome://tracing read (Trace Event Format, JSON array of complete events, microseconds):
///
///   data: load, data: wait          the loader's thread; the training thread waiting for it
///   micro-batch, close window       forward and backward; replay and mean
///   optimizer step, evaluation, log
///   checkpoint: write, checkpoint: wait
///
/// They come from at::RecordFunction's user scopes, so a user's own RECORD_USER_SCOPE is there,
/// too. A span is written when it ends: a run that is killed leaves a file that can be read. There
/// is one trace at a time (usage Error); the thread that makes it is the training thread.
class Trace {
 public:
  /// Makes a new file: throws a usage Error if there is one, or anything else, of that name, and
  /// a runtime Error if it cannot be created. What cannot be written later (a full disk) is left
  /// out and warned of at the end: the run goes on. If no span ended, the file is removed again.
  explicit Trace(const std::filesystem::path& file);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accrue::train
