#include "train/measure/trace.h"

#include <ATen/record_function.h>
#include <fcntl.h>

#include <cerrno>
#include <chrono>
#include <iostream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "accrue/core/error.h"
#include "core/open_file.h"
#include "core/printable.h"
#include "core/write_out.h"

namespace accrue::train {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

struct Span : at::ObserverContext {
  Clock::time_point begin = Clock::now();
};

}  // namespace

struct Trace::Impl {
  explicit Impl(const std::filesystem::path& path) {
    const std::lock_guard lock(mutex);
    if (listening != nullptr)
      throw usage_error("trace into " + path.string(), "one trace at a time", "a second",
                        "ending the first one");
    create(path);
    listening = this;
    put("[\n");
    handle = at::addGlobalCallback(
        at::RecordFunctionCallback(&begin, &end).scopes({at::RecordScope::USER_SCOPE}));
  }

  ~Impl() {
    at::removeCallback(handle);
    const std::lock_guard lock(mutex);
    listening = nullptr;
    if (rows.empty())
      take_back();
    else
      finish();
  }

  void finish() {
    const json end{{"name", "end of the trace"},       {"ph", "i"}, {"s", "g"},
                   {"ts", microseconds(Clock::now())}, {"pid", 0},  {"tid", 0}};
    put(end.dump() + "\n]\n");
    if (!is_whole)
      std::cerr << "warning: trace into " << printable(file_name.string())
                << ": spans are missing at its end, as not all of it could be written" << std::endl;
  }

  /// Creates a file, and replaces none: the name of a trace may be mistyped.
  void create(const std::filesystem::path& path) {
    OpenedFile made = create_file(path, O_WRONLY);
    if (made.error == EEXIST)
      throw usage_error("trace into " + path.string(), "a new file", "one that is there",
                        "another name, or removing it");
    if (!made)
      throw runtime_error("trace into " + path.string(), "a file that can be created",
                          made.obstacle, "another file");
    file = std::move(made.file);
    file_name = path;
  }

  /// Removes the file: a run that ended before its first span must not block that name for the next
  /// attempt.
  void take_back() {
    file.reset();
    std::error_code ignored;
    std::filesystem::remove(file_name, ignored);
  }

  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction&) {
    return std::make_unique<Span>();
  }

  static void end(const at::RecordFunction& function, at::ObserverContext* context) {
    const Clock::time_point now = Clock::now();
    const std::lock_guard lock(mutex);
    if (listening != nullptr)
      listening->write(function, static_cast<const Span*>(context)->begin, now);
  }

  void write(const at::RecordFunction& function, Clock::time_point begin, Clock::time_point end) {
    const std::size_t row = row_of(function);
    put(json{{"name", function.name()},
             {"ph", "X"},
             {"ts", microseconds(begin)},
             {"dur", microseconds(end) - microseconds(begin)},
             {"pid", 0},
             {"tid", row}}
            .dump() +
        ",\n");
  }

  /// Text after half a line cannot be read, so nothing more is written after one.
  void put(const std::string& text) {
    if (is_whole) is_whole = write_out(file.get(), text) == text.size();
  }

  double microseconds(Clock::time_point time) const {
    return std::chrono::duration<double, std::micro>(time - start).count();
  }

  /// The row of a span: one for the training thread, and one for each purpose ("data: load") of the
  /// other threads, however many of them serve it one after the other.
  std::size_t row_of(const at::RecordFunction& function) {
    const std::string name = function.name();
    const std::string row = at::RecordFunction::currentThreadId() == training_thread
                                ? "training"
                                : name.substr(0, name.find(':'));
    const auto [found, is_new] = rows.try_emplace(row, rows.size());
    if (is_new)
      put(json{{"name", "thread_name"},
               {"ph", "M"},
               {"pid", 0},
               {"tid", found->second},
               {"args", {{"name", row}}}}
              .dump() +
          ",\n");
    return found->second;
  }

  // Callbacks of at::RecordFunction get no argument of ours.
  static std::mutex mutex;  // guards `listening`, its file and rows
  static Impl* listening;

  std::filesystem::path file_name;
  Descriptor file;
  bool is_whole = true;  ///< all was written so far
  const Clock::time_point start = Clock::now();
  const std::uint64_t training_thread = at::RecordFunction::currentThreadId();
  std::map<std::string, std::size_t> rows;
  at::CallbackHandle handle = at::INVALID_CALLBACK_HANDLE;
};

std::mutex Trace::Impl::mutex;
Trace::Impl* Trace::Impl::listening = nullptr;

Trace::Trace(const std::filesystem::path& file) : impl_(std::make_unique<Impl>(file)) {}

Trace::~Trace() = default;

}  // namespace accrue::train
