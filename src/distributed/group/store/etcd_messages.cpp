#include "distributed/group/store/etcd_messages.h"

#include <sodium.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

namespace accrue::distributed {
namespace {

using nlohmann::json;

constexpr int kBase64 = sodium_base64_VARIANT_ORIGINAL;

std::string in_base64(std::string_view bytes) {
  std::string text(sodium_base64_ENCODED_LEN(bytes.size(), kBase64), '\0');
  sodium_bin2base64(text.data(), text.size(), reinterpret_cast<const unsigned char*>(bytes.data()),
                    bytes.size(), kBase64);
  text.pop_back();  // its end of string
  return text;
}

std::runtime_error malformed(const std::string& what) {
  return std::runtime_error("an answer that is not etcd's: " + what);
}

std::string from_base64(const std::string& text) {
  std::string bytes(text.size(), '\0');
  std::size_t size = 0;
  const char* end = nullptr;
  const bool is_whole =
      sodium_base642bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), text.data(),
                        text.size(), nullptr, &size, &end, kBase64) == 0 &&
      end == text.data() + text.size();
  if (!is_whole) throw malformed("a value that is not base64");
  bytes.resize(size);
  return bytes;
}

/// A member of `from`; null if it is left out.
json part_of(const json& from, const char* name, json::value_t type) {
  const auto found = from.find(name);
  if (found == from.end()) return nullptr;
  if (found->type() != type) throw malformed(std::string("another '") + name + "'");
  return *found;
}

/// An answer of etcd's, which has a header.
json with_header(json answer) {
  if (part_of(answer, "header", json::value_t::object).is_null()) throw malformed("no header");
  return answer;
}

json parsed(const std::string& body) {
  json answer = json::parse(body, nullptr, false);
  if (!answer.is_object()) throw malformed(answer.is_discarded() ? "no JSON" : "no object");
  return answer;
}

std::string text_of(const json& from, const char* name) {
  const json text = part_of(from, name, json::value_t::string);
  return text.is_null() ? "" : text.get<std::string>();
}

/// 64-bit numbers are strings, and left out if they are zero.
std::int64_t number_of(const json& from, const char* name) {
  const std::string text = text_of(from, name);
  std::int64_t number = 0;
  if (text.empty()) return number;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    throw malformed(std::string("'") + name + "' that is no number");
  return number;
}

std::optional<EtcdValue> first_of(const json& range) {
  const json values = part_of(range, "kvs", json::value_t::array);
  if (values.is_null() || values.empty()) return std::nullopt;
  if (!values.front().is_object()) throw malformed("a value that is no object");
  return EtcdValue{.value = from_base64(text_of(values.front(), "value")),
                   .revision = number_of(values.front(), "mod_revision")};
}

bool has_succeeded(const json& answer) {
  const json succeeded = part_of(answer, "succeeded", json::value_t::boolean);
  return !succeeded.is_null() && succeeded.get<bool>();
}

/// The value that the request `number` of a transaction's failure branch found.
std::optional<EtcdValue> found_in(const json& answer, std::size_t number) {
  const json responses = part_of(answer, "responses", json::value_t::array);
  if (responses.is_null() || number >= responses.size() || !responses[number].is_object())
    throw malformed("a transaction without its responses");
  const json range = part_of(responses[number], "response_range", json::value_t::object);
  if (range.is_null()) throw malformed("a transaction without its values");
  return first_of(range);
}

json put_of(std::string_view key, std::string_view value, std::int64_t lease) {
  return {{"key", in_base64(key)}, {"value", in_base64(value)}, {"lease", std::to_string(lease)}};
}

json range_of(std::string_view key) { return {{"key", in_base64(key)}}; }

json is_absent(std::string_view key) {
  return {{"key", in_base64(key)}, {"target", "VERSION"}, {"version", "0"}};
}

/// Errors that hold for all members, by gRPC's codes: an invalid argument, something that is not
/// there or there already, no permission, and no authentication; and, if it is not only for now, a
/// resource that is exhausted.
bool is_final(int code, const std::string& message) {
  constexpr std::array final_codes{
      3, EtcdRefusal::kNotFound, 7, EtcdRefusal::kFailedPrecondition, 11, 16};
  constexpr int exhausted = 8;
  if (code == exhausted) return message.find("too many") == std::string::npos;
  return std::ranges::find(final_codes, code) != final_codes.end();
}

}  // namespace

std::string range_request(std::string_view key) { return range_of(key).dump(); }

std::string presence_request(std::string_view key) {
  return json{{"key", in_base64(key)}, {"count_only", true}}.dump();
}

std::string count_request(std::string_view folder) {
  std::string end(folder);
  ++end.back();
  return json{{"key", in_base64(folder)}, {"range_end", in_base64(end)}, {"count_only", true}}
      .dump();
}

std::string put_request(std::string_view key, std::string_view value, std::int64_t lease) {
  return put_of(key, value, lease).dump();
}

std::string delete_request(std::string_view key) { return range_of(key).dump(); }

std::string compare_request(std::string_view key, const std::optional<std::string>& expected,
                            std::string_view value, std::int64_t lease) {
  const json condition =
      expected ? json{{"key", in_base64(key)}, {"target", "VALUE"}, {"value", in_base64(*expected)}}
               : is_absent(key);
  return json{{"compare", json::array({condition})},
              {"success", json::array({json{{"request_put", put_of(key, value, lease)}}})},
              {"failure", json::array({json{{"request_range", range_of(key)}}})}}
      .dump();
}

std::string add_request(std::string_view key, std::int64_t revision, std::string_view mark,
                        std::string_view value, std::int64_t lease) {
  const json condition = revision == 0 ? is_absent(key)
                                       : json{{"key", in_base64(key)},
                                              {"target", "MOD"},
                                              {"mod_revision", std::to_string(revision)}};
  return json{{"compare", json::array({condition, is_absent(mark)})},
              {"success", json::array({json{{"request_put", put_of(key, value, lease)}},
                                       json{{"request_put", put_of(mark, value, lease)}}})},
              {"failure", json::array({json{{"request_range", range_of(key)}},
                                       json{{"request_range", range_of(mark)}}})}}
      .dump();
}

std::string grant_request(std::int64_t lease, std::int64_t seconds) {
  return json{{"ID", std::to_string(lease)}, {"TTL", std::to_string(seconds)}}.dump();
}

std::string renewal_request(std::int64_t lease) {
  return json{{"ID", std::to_string(lease)}}.dump();
}

void check_answer(long status, const std::string& body) {
  constexpr long ok = 200;
  if (status == ok) return;
  const std::string page = "HTTP status " + std::to_string(status);
  const json answer = json::parse(body, nullptr, false);
  if (!answer.is_object()) throw malformed(page);
  const json code = part_of(answer, "code", json::value_t::number_unsigned);
  if (code.is_null()) throw malformed(page);
  // etcd 3.4 has the text under both names.
  std::string message = text_of(answer, "message");
  if (message.empty()) message = text_of(answer, "error");
  if (is_final(code.get<int>(), message)) throw EtcdRefusal(code.get<int>(), message);
  throw std::runtime_error(message.empty() ? page : message);
}

std::optional<EtcdValue> value_in(const std::string& range_answer) {
  return first_of(with_header(parsed(range_answer)));
}

std::int64_t count_in(const std::string& range_answer) {
  return number_of(with_header(parsed(range_answer)), "count");
}

bool is_answer(const std::string& answer) {
  with_header(parsed(answer));
  return true;
}

bool has_deleted(const std::string& delete_answer) {
  return number_of(with_header(parsed(delete_answer)), "deleted") > 0;
}

Compared compared_in(const std::string& answer) {
  const json whole = with_header(parsed(answer));
  if (has_succeeded(whole)) return {.is_put = true, .found = {}};
  return {.is_put = false, .found = found_in(whole, 0)};
}

Added added_in(const std::string& answer) {
  const json whole = with_header(parsed(answer));
  if (has_succeeded(whole)) return {.is_put = true, .found = {}, .mark = {}};
  return {.is_put = false, .found = found_in(whole, 0), .mark = found_in(whole, 1)};
}

bool is_renewed(const std::string& answer) {
  const json result = part_of(parsed(answer), "result", json::value_t::object);
  if (result.is_null()) throw malformed("a lease without its result");
  return number_of(with_header(result), "TTL") > 0;
}

}  // namespace accrue::distributed
