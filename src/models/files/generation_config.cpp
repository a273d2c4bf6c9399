#include "models/files/generation_config.h"

#include <nlohmann/json.hpp>

#include "accrue/core/error.h"
#include "core/atomic_file.h"

namespace accrue::models {
namespace {

using EndJson = nlohmann::json;

std::int64_t token_of(const EndJson& stated, const std::string& file) {
  constexpr std::uint64_t most = std::uint64_t{1} << 31;
  const bool is_token = stated.is_number_unsigned() && stated.get<std::uint64_t>() < most;
  if (is_token) return stated.get<std::int64_t>();
  throw usage_error("load " + file, "\"eos_token_id\" to be a token's id or a list of such",
                    stated.dump(-1, ' ', /*ensure_ascii=*/true, EndJson::error_handler_t::replace),
                    "the file that the model came with");
}

}  // namespace

std::vector<std::int64_t> parse_end_tokens(const std::string& text, const std::string& file) {
  const EndJson config = EndJson::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object())
    throw usage_error("load " + file, "a JSON object", "something else or broken JSON",
                      "the file that the model came with");
  const EndJson stated = config.value("eos_token_id", EndJson());
  std::vector<std::int64_t> tokens;
  if (stated.is_null()) return tokens;
  if (!stated.is_array()) return {token_of(stated, file)};
  for (const EndJson& one : stated) tokens.push_back(token_of(one, file));
  return tokens;
}

std::vector<std::int64_t> read_end_tokens(const std::filesystem::path& folder) {
  std::filesystem::path file = folder / "generation_config.json";
  std::error_code unreadable;
  if (!std::filesystem::exists(file, unreadable)) file = folder / "config.json";
  return parse_end_tokens(read_file(file), file.string());
}

}  // namespace accrue::models
