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
#include "core/open_file.h"
#include "core/printable.h"
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

/// The step of a line, or none if the line is not whole.
std::optional<std::int64_t> step_of(const std::string& line) {
  return step_of(nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false));
}

/// Throws if another program wrote the file, so that nothing is removed from it: if its first line
/// is whole but not metrics, or, in a file with metrics according to a checkpoint, all are.
void require_metrics(const std::vector<MetricsText>& lines, bool has_metrics,
                     const std::filesystem::path& file) {
  const auto is_foreign = [](const MetricsText& line) { return !line.step && !line.is_last_cut; };
  if (lines.empty() || !is_foreign(lines.front())) return;
  if (has_metrics && !std::ranges::all_of(lines, is_foreign)) return;
  throw usage_error("write " + file.string(), "a new file, or metrics of an earlier attempt",
                    "a file that begins with something else", "another name");
}

/// Removes the lines of later steps from the file, and those that cannot be read.
void remove_lines_after(const std::filesystem::path& file, std::int64_t last_step,
                        MetricsAccount& account) {
  const std::string content = std::filesystem::is_regular_file(file) ? read_file(file) : "";
  const std::vector<MetricsText> lines = lines_of_metrics(content);
  require_metrics(lines, account.expects_lines(), file);
  account.begin(lines, last_step);
  std::string kept;
  for (const MetricsText& line : lines)
    if (line.step && *line.step <= last_step) kept.append(line.text) += '\n';
  // Text appended to a file with a second name would be in that one as well, which may be a copy.
  if (kept != content || has_second_name(file)) write_file_atomically(file, kept);
}

std::string bytes_between(std::istream& file, std::int64_t begin, std::int64_t end) {
  std::string bytes(static_cast<std::size_t>(end - begin), '\0');
  file.seekg(begin);
  file.read(bytes.data(), end - begin);
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  file.clear();
  return bytes;
}

/// The end of the last whole line of `last_step` or before in `text`, whose first line may lack its
/// beginning; none if there is none.
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
  // Later lines are few, so the end is searched first.
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
  std::ifstream file = stream_to_read(metrics);
  file.seekg(0, std::ios::end);
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
                     std::function<double()> unix_clock, MetricsAccount* account)
    : file_(std::move(file)),
      warnings_(warnings),
      unix_clock_(std::move(unix_clock)),
      account_(account == nullptr ? own_account_ : *account),
      warns_(account == nullptr) {
  remove_lines_after(file_, first_step, account_);
  if (const std::string obstacle = open(); !obstacle.empty())
    throw runtime_error("open " + file_.string(), "a file that can be written", obstacle,
                        "another run.out, or observe.jsonl = false");
}

JsonlSink::JsonlSink(std::filesystem::path file, std::int64_t first_step, std::ostream& warnings,
                     std::function<double()> unix_clock)
    : JsonlSink(std::move(file), first_step, warnings, std::move(unix_clock), nullptr) {}

JsonlSink::JsonlSink(std::filesystem::path file, std::int64_t first_step)
    : JsonlSink(std::move(file), first_step, std::cerr, unix_time) {}

JsonlSink::JsonlSink(std::filesystem::path file, std::int64_t first_step, MetricsAccount& account)
    : JsonlSink(std::move(file), first_step, std::cerr, unix_time, &account) {}

JsonlSink::~JsonlSink() = default;

std::string JsonlSink::open() {
  OpenedFile opened = open_to_change(file_, O_WRONLY | O_APPEND);
  descriptor_ = std::move(opened.file);
  struct stat status {};
  bytes_ = ::fstat(descriptor_.get(), &status) == 0 ? status.st_size : 0;
  return std::move(opened.obstacle);
}

void JsonlSink::on_step(const StepReport& report) {
  append(to_json_line(report), report.step, true);
}

void JsonlSink::on_evaluation(const Evaluation& evaluation) {
  append(to_json_line(evaluation, unix_clock_()), evaluation.step, false);
}

void JsonlSink::on_event(const Event& event) {
  append(to_json_line(event, unix_clock_()), event.step, false);
}

/// The file is replaced, so it is opened again.
void JsonlSink::on_rollback(std::int64_t step) {
  try {
    remove_lines_after(file_, step, account_);
  } catch (const std::exception& error) {
    account_.miss({}, error.what());
    return warn_once(error.what());
  }
  if (const std::string obstacle = open(); !obstacle.empty()) warn_once(obstacle);
}

void JsonlSink::append(const std::string& line, std::int64_t step, bool is_step) {
  const std::string_view text = std::string_view(line).substr(0, line.size() - 1);
  const MetricsText told{.text = text, .step = step, .is_step = is_step};
  const std::string obstacle = write(line);
  if (obstacle.empty()) {
    account_.add(told);
    return look_at_file(line);
  }
  account_.miss(told, obstacle);
  warn_once(obstacle);
}

std::string JsonlSink::write(const std::string& line) {
  const std::size_t written = write_out(descriptor_.get(), line);
  if (written == line.size()) return {};
  const std::string reason = std::strerror(errno);
  struct stat status {};
  const bool torn = written > 0 && ::fstat(descriptor_.get(), &status) == 0;
  if (torn && ::ftruncate(descriptor_.get(), status.st_size - static_cast<off_t>(written)) != 0)
    return reason + ", and a line was cut short";
  return reason;
}

/// Another program may have removed the file, replaced it or written into it: its former contents
/// are then gone.
void JsonlSink::look_at_file(const std::string& line) {
  struct stat status {};
  if (::fstat(descriptor_.get(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  if (status.st_nlink == 0) {
    warn_once("the file was removed, lines from here on are in a new one");
    if (const std::string obstacle = open(); !obstacle.empty()) return account_.miss({}, obstacle);
    if (const std::string obstacle = write(line); !obstacle.empty())
      return account_.miss({}, obstacle);
    bytes_ += std::ssize(line);
    return tell_of_new_content("was removed while the run wrote it, and begins again");
  }
  bytes_ += std::ssize(line);
  if (status.st_size == bytes_) return;
  bytes_ = status.st_size;
  tell_of_new_content("was changed by something else while the run wrote it");
}

void JsonlSink::tell_of_new_content(const std::string& why) {
  if (warns_) return;  // the account is not used
  try {
    const std::string content = read_file(file_);
    account_.restart(lines_of_metrics(content), why);
  } catch (const Error& unreadable) {
    account_.restart({}, why + " (" + unreadable.received() + ")");
  }
}

void JsonlSink::warn_once(const std::string& reason) {
  if (warned_ || !warns_) return;
  warned_ = true;
  warnings_ << "warning: write " << printable(file_.string()) << ": " << printable(reason)
            << "; training goes on, lines that do not fit are left out" << std::endl;
}

}  // namespace accrue::observe
