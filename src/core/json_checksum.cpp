#include "core/json_checksum.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "core/checksum.h"

namespace accrue {
namespace {

using nlohmann::json;

constexpr const char* member = "checksum";

std::string laid_out(const json& object) {
  return object.dump(2, ' ', false, json::error_handler_t::replace);
}

}  // namespace

std::string text_with_checksum(json object) {
  object.erase(member);
  object[member] = checksum_of(laid_out(object));
  return laid_out(object) + "\n";
}

bool has_its_checksum(json object) {
  if (!object.contains(member)) return true;
  const json stated = std::exchange(object[member], {});
  object.erase(member);
  return stated == checksum_of(laid_out(object));
}

}  // namespace accrue
