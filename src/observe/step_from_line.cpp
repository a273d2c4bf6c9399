#include "observe/step_from_line.h"

#include <nlohmann/json.hpp>

#include "observe/step_fields.h"

namespace accrue {

// nlohmann-json finds these functions by their name.
void from_json(const nlohmann::json& json, MicroBatchSeconds& seconds) {
  json.at("median").get_to(seconds.median);
  json.at("max").get_to(seconds.max);
}

void from_json(const nlohmann::json& json, MemoryByKind& memory) {
  json.at("parameters").get_to(memory.parameters);
  json.at("gradients").get_to(memory.gradients);
  json.at("optimizer").get_to(memory.optimizer);
  json.at("activations").get_to(memory.activations);
  json.at("packed").get_to(memory.packed);
  json.at("reserved").get_to(memory.reserved);
}

namespace observe {
namespace {

/// The values of a line by their names.
class Fields {
 public:
  explicit Fields(const nlohmann::json& line) : line_(line) {}

  template <class Value>
  void take(const char* name, Value& value) const {
    if (const auto found = line_.find(name); found != line_.end()) found->get_to(value);
  }
  template <class Value>
  void take(const char* name, std::optional<Value>& value) const {
    if (const auto found = line_.find(name); found != line_.end()) value = found->get<Value>();
  }

 private:
  const nlohmann::json& line_;
};

StepReport report_of(const nlohmann::json& line) {
  // A line of a step has at least these.
  StepReport report{.step = line.at("step").get<std::int64_t>(), .lr = line.at("lr").get<double>()};
  visit_fields(
      report, [fields = Fields(line)](const char* name, auto& value) { fields.take(name, value); });
  return report;
}

}  // namespace

std::optional<StepReport> step_from_line(const std::string& line) {
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  try {
    return report_of(json);
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace observe
}  // namespace accrue
