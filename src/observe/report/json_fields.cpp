#include "observe/report/json_fields.h"

#include <nlohmann/json.hpp>

#include "observe/history/run_facts.h"

namespace accrue::observe {
namespace {

using nlohmann::json;

const json* field_at(const json& root, const char* pointer) {
  const json::json_pointer place(pointer);
  return root.is_structured() && root.contains(place) ? &root.at(place) : nullptr;
}

}  // namespace

std::optional<double> number_at(const json& root, const char* pointer) {
  const json* field = field_at(root, pointer);
  if (field == nullptr || !field->is_number()) return std::nullopt;
  return field->get<double>();
}

std::optional<std::int64_t> integer_at(const json& root, const char* pointer) {
  const json* field = field_at(root, pointer);
  return field == nullptr ? std::nullopt : count_of(*field);
}

std::string text_at(const json& root, const char* pointer) {
  const json* field = field_at(root, pointer);
  if (field == nullptr) return "";
  if (field->is_string()) return field->get<std::string>();
  return field->is_number() ? field->dump() : "";
}

const json* array_at(const json& root, const char* pointer) {
  const json* field = field_at(root, pointer);
  return field != nullptr && field->is_array() ? field : nullptr;
}

}  // namespace accrue::observe
