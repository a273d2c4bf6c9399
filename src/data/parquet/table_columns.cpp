#include "data/parquet/table_columns.h"

#include <algorithm>
#include <array>

namespace accrue::data {
namespace {

constexpr std::array<std::string_view, 18> columns_of_lines{
    "text",           "prompt",          "completion",          "input_ids", "labels",
    "attention_mask", "completion_mask", "assistant_masks",     "loss_mask", "position_ids",
    "seq_lengths",    "messages",        "conversations",       "tools",     "chosen",
    "rejected",       "weight",          "chat_template_kwargs"};
constexpr std::array<std::string_view, 5> columns_of_alpaca{"instruction", "input", "output",
                                                            "system", "history"};
constexpr std::array<std::string_view, 6> columns_with_gaps{
    "tools", "weight", "chat_template_kwargs", "input", "system", "history"};

template <typename Names>
bool has_name(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

TableColumns columns_of_table(const std::vector<std::string>& names) {
  const bool is_alpaca = has_name(names, "instruction") && has_name(names, "output");
  const bool is_sharegpt = has_name(names, "conversations");
  TableColumns columns;
  for (const std::string& name : names) {
    const bool is_of_lines = has_name(columns_of_lines, name) && !(is_alpaca && name == "text");
    const bool is_read = is_of_lines || (is_alpaca && has_name(columns_of_alpaca, name)) ||
                         (is_sharegpt && name == "system");
    (is_read ? columns.read : columns.unread).push_back(name);
  }
  return columns;
}

bool may_have_gaps(std::string_view column) { return has_name(columns_with_gaps, column); }

}  // namespace accrue::data
