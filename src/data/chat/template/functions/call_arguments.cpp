#include "data/chat/template/functions/call_arguments.h"

#include <algorithm>

#include "data/chat/template/values/value_operations.h"

namespace accrue::data::jinja {

void CallArguments::refuse(const std::string& expected, const std::string& received) const {
  throw Failure(expected + " for '" + function + "'", received);
}

void CallArguments::expect(const std::vector<std::string_view>& names, std::size_t needed) {
  if (positional.size() > names.size())
    refuse("at most " + std::to_string(names.size()) + " arguments",
           std::to_string(positional.size()));
  const std::size_t by_name = named.size();
  for (std::size_t i = 0; i < by_name; ++i) {
    const auto known = std::ranges::find(names, named[i].first);
    if (known == names.end()) refuse("arguments that it has", "'" + named[i].first + "'");
    if (known - names.begin() < static_cast<std::ptrdiff_t>(positional.size()))
      refuse("each argument once", "'" + named[i].first + "' twice");
  }
  for (std::size_t i = 0; i < positional.size(); ++i)
    named.emplace_back(names[i], std::move(positional[i]));
  positional.clear();
  for (std::size_t i = 0; i < needed; ++i)
    if (find(names[i]) == nullptr) refuse("'" + std::string(names[i]) + "'", "nothing");
}

const Value* CallArguments::find(std::string_view name) const {
  const auto found =
      std::ranges::find_if(named, [&](const auto& argument) { return argument.first == name; });
  return found == named.end() ? nullptr : &found->second;
}

const Value& CallArguments::get(std::string_view name) const {
  const Value* const found = find(name);
  if (found == nullptr) refuse("'" + std::string(name) + "'", "nothing");
  return *found;
}

std::string CallArguments::text(std::string_view name, std::string absent) const {
  const Value* const found = find(name);
  if (found == nullptr) return absent;
  if (!found->is_text()) refuse("a text as '" + std::string(name) + "'", found->type_name());
  return found->as_text();
}

std::int64_t CallArguments::integer(std::string_view name, std::int64_t absent) const {
  const Value* const found = find(name);
  if (found == nullptr) return absent;
  if (!found->is_integral())
    refuse("an integer as '" + std::string(name) + "'", found->type_name());
  return found->as_integer();
}

bool CallArguments::truth(std::string_view name, bool absent) const {
  const Value* const found = find(name);
  return found == nullptr ? absent : is_true(*found);
}

}  // namespace accrue::data::jinja
