#include "observe/jsonl_sink.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "accrue/core/clock.h"
#include "accrue/core/error.h"
#include "core/atomic_file.h"
#include "core/write_out.h"
#include "observe/step_fields.h"

namespace accrue::observe {
namespace {

using Json = nlohmann::ordered_json;

void put(Json& line, const char* name, double value) {
  if (std::isfinite(value)) line[name] = value;
}

void put(Json& line, const char* name, std::int64_t value) { line[name] = value; }

void put(Json& line, const char* name, const std::string& value) { line[name] = value; }

void put(Json& line, const char* name, const std::map<std::string, double>& values) {
  Json object;
  for (const auto& [key, value] : values) put(object, key.c_str(), value);
  if (!object.empty()) line[name] = std::move(object);
}

void put(Json& line, const char* name, const MicroBatchSeconds& seconds) {
  put(line[name], "median", seconds.median);
  put(line[name], "max", seconds.max);
}

void put(Json& line, const char* name, const MemoryByKind& memory) {
  Json& bytes = line[name];
  put(bytes, "parameters", memory.parameters);
  put(bytes, "gradients", memory.gradients);
  put(bytes, "optimizer", memory.optimizer);
  put(bytes, "activations", memory.activations);
  put(bytes, "packed", memory.packed);
  put(bytes, "reserved", memory.reserved);
}

template <typename T>
void put(Json& line, const char* name, const std::optional<T>& value) {
  if (value) put(line, name, *value);
}

std::string dump(const Json& line) {
  // A reason may quote a file name that is not UTF-8.
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<std::int64_t> step_of(const nlohmann::json& line) {
  if (!line.is_object()) return std::nullopt;
  const auto step = line.find("step");
  if (step == line.end() || !step->is_number_integer()) return std::nullopt;
  return step->get<std::int64_t>();
}

/// The step of a line, or none where the line is not whole.
std::optional<std::int64_t> step_of(const std::string& line) {
  return step_of(nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false));
}

/// Throws where somebody else wrote the file (its first line is whole and no metrics), so that
/// nothing is taken out of it.
void require_metrics(const std::string& content, const std::filesystem::path& file) {
  const std::size_t end = content.find('\n');
  if (end == std::string::npos || step_of(content.substr(0, end))) return;
  throw usage_error("write " + file.string(), "a new file, or metrics of an earlier attempt",
                    "a file that begins with something else", "another name");
}

void remove_lines_after(const std::filesystem::path& file, std::int64_t last_step) {
  if (!std::filesystem::is_regular_file(file)) return;
  const std::string content = read_file(file);
  require_metrics(content, file);
  std::string kept;
  std::istringstream lines(content);
  for (std::string line; std::getline(lines, line);) {
    const auto step = step_of(line);
    if (step && *step <= last_step) kept += line + "\n";
  }
  if (kept != content) write_file_atomically(file, kept);
}

std::string bytes_between(std::istream& file, std::int64_t begin, std::int64_t end) {
  std::string bytes(static_cast<std::size_t>(end - begin), '\0');
  file.seekg(begin);
  file.read(bytes.data(), end - begin);
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  file.clear();
  return bytes;
}

/// The end of the last whole line of `last_step` or before in `text`, of whose first line the
/// beginning may be missing; none where there is none.
std::optional<std::size_t> end_of_step(const std::string& text, std::int64_t last_step) {
  std::size_t end = text.rfind('\n');
  while (end != std::string::npos && end > 0) {
    const std::size_t before = text.rfind('\n', end - 1);
    if (before == std::string::npos) return std::nullopt;
    const auto step = step_of(text.substr(before + 1, end - before - 1));
    if (step && *step <= last_step) return end + 1;
    end = before;
  }
  return std::nullopt;
}

}  // namespace

std::int64_t bytes_of_metrics(std::istream& metrics, std::int64_t last_step) {
  metrics.seekg(0, std::ios::end);
  const std::int64_t size = std::max<std::int64_t>(metrics.tellg(), 0);
  // Later lines are few, so the end is looked at first.
  for (std::int64_t tail = 1 << 16;; tail *= 2) {
    const std::int64_t begin = std::max<std::int64_t>(size - tail, 0);
    const std::string first = begin == 0 ? "\n" : "";  // the file's first line is whole
    const auto end = end_of_step(first + bytes_between(metrics, begin, size), last_step);
    if (!end && begin > 0) continue;
    metrics.seekg(0);
    return end ? begin + static_cast<std::int64_t>(*end) - std::ssize(first) : 0;
  }
}

bool has_step(const std::filesystem::path& metrics, std::int64_t step) {
  constexpr std::int64_t tail = 1 << 20;
  std::ifstream file(metrics, std::ios::binary | std::ios::ate);
  const std::int64_t size = file ? static_cast<std::int64_t>(file.tellg()) : 0;
  std::istringstream lines(bytes_between(file, std::max<std::int64_t>(size - tail, 0), size));
  for (std::string text; std::getline(lines, text);) {
    const auto line = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (step_of(line).value_or(-1) >= step && line.contains("lr")) return true;
  }
  return false;
}

std::string to_json_line(const StepReport& report) {
  Json line;
  visit_fields(report, [&](const char* name, const auto& value) { put(line, name, value); });
  return dump(line);
}

std::string to_json_line(const Event& event, double time) {
  Json line;
  put(line, "step", event.step);
  put(line, "time", time);
  line["event"] = event.name;
  line["reason"] = event.reason;
  return dump(line);
}

std::string to_json_line(const Evaluation& evaluation, double time) {
  Json line;
  put(line, "step", evaluation.step);
  put(line, "time", time);
  put(line, "eval_loss", evaluation.loss);
  put(line, "eval_accuracy", evaluation.accuracy);
  put(line, "losses", evaluation.losses);
  put(line, "weight", evaluation.weight);
  put(line, "seconds", evaluation.seconds);
  return dump(line);
}

JsonlSink::JsonlSink(std::filesystem::path file, std::int64_t first_step, std::ostream& warnings,
                     std::function<double()> unix_clock)
    : file_(std::move(file)), warnings_(warnings), unix_clock_(std::move(unix_clock)) {
  remove_lines_after(file_, first_step);
  open();
  if (descriptor_ < 0)
    throw runtime_error("open " + file_.string(), "a file that can be written",
                        std::strerror(errno), "another run.out, or observe.jsonl = false");
}

void JsonlSink::open() {
  descriptor_ = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

JsonlSink::JsonlSink(std::filesystem::path file, std::int64_t first_step)
    : JsonlSink(std::move(file), first_step, std::cerr, unix_time) {}

JsonlSink::~JsonlSink() { ::close(descriptor_); }

void JsonlSink::on_step(const StepReport& report) { append(to_json_line(report)); }

void JsonlSink::on_evaluation(const Evaluation& evaluation) {
  append(to_json_line(evaluation, unix_clock_()));
}

void JsonlSink::on_event(const Event& event) { append(to_json_line(event, unix_clock_())); }

/// The file is replaced, so it is opened anew.
void JsonlSink::on_rollback(std::int64_t step) {
  try {
    remove_lines_after(file_, step);
  } catch (const std::exception& error) {
    return warn_once(error.what());
  }
  ::close(descriptor_);
  open();
}

void JsonlSink::append(const std::string& line) {
  const std::size_t written = write_out(descriptor_, line);
  const int error = errno;
  struct stat status {};
  const bool is_known = ::fstat(descriptor_, &status) == 0;
  if (written == line.size()) {
    if (is_known && status.st_nlink == 0) go_on_in_new_file(line);
    return;
  }
  const bool torn = written > 0 && is_known;
  if (torn && ::ftruncate(descriptor_, status.st_size - static_cast<off_t>(written)) != 0)
    warn_once("a line was cut short");
  warn_once(std::strerror(error));
}

/// Somebody removed the file, or put another in its place: what was in it is gone.
void JsonlSink::go_on_in_new_file(const std::string& line) {
  warn_once("the file was removed, lines from here on are in a new one");
  ::close(descriptor_);
  open();
  if (descriptor_ >= 0) write_out(descriptor_, line);
}

void JsonlSink::warn_once(const char* reason) {
  if (warned_) return;
  warned_ = true;
  warnings_ << "warning: write " << file_.string() << ": " << reason
            << "; training goes on, lines that do not fit are left out" << std::endl;
}

}  // namespace accrue::observe
