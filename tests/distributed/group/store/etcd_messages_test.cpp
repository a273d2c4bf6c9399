// What etcd 3.4.23 answered to these requests, and what a damaged or foreign answer may be.
#include "distributed/group/store/etcd_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace accrue::distributed {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// "accrue/x", "one" and "two" in base64, by coreutils.
constexpr const char *kKey = "YWNjcnVlL3g=", *kOne = "b25l", *kTwo = "dHdv";

TEST(EtcdMessages, RequestsAreWhatTheGatewayTakes) {
  EXPECT_EQ(json::parse(range_request("accrue/x")), (json{{"key", kKey}}));
  EXPECT_EQ(json::parse(presence_request("accrue/x")), (json{{"key", kKey}, {"count_only", true}}));
  EXPECT_EQ(json::parse(put_request("accrue/x", "one", 77)),
            (json{{"key", kKey}, {"value", kOne}, {"lease", "77"}}));
  EXPECT_EQ(json::parse(compare_request("accrue/x", "one", "two", 77)), json::parse(R"({
      "compare": [{"key": "YWNjcnVlL3g=", "target": "VALUE", "value": "b25l"}],
      "success": [{"request_put": {"key": "YWNjcnVlL3g=", "value": "dHdv", "lease": "77"}}],
      "failure": [{"request_range": {"key": "YWNjcnVlL3g="}}]})"));
  EXPECT_EQ(json::parse(compare_request("accrue/x", {}, "two", 77))["compare"],
            json::parse(R"([{"key": "YWNjcnVlL3g=", "target": "VERSION", "version": "0"}])"));
  EXPECT_EQ(json::parse(add_request("accrue/x", 3, "op", "3", 77)), json::parse(R"({
      "compare": [{"key": "YWNjcnVlL3g=", "target": "MOD", "mod_revision": "3"},
                  {"key": "b3A=", "target": "VERSION", "version": "0"}],
      "success": [{"request_put": {"key": "YWNjcnVlL3g=", "value": "Mw==", "lease": "77"}},
                  {"request_put": {"key": "b3A=", "value": "Mw==", "lease": "77"}}],
      "failure": [{"request_range": {"key": "YWNjcnVlL3g="}}, {"request_range": {"key": "b3A="}}]})"));
  EXPECT_EQ(json::parse(grant_request(77, 3600)), (json{{"ID", "77"}, {"TTL", "3600"}}));
  EXPECT_EQ(json::parse(count_request("a/"))["range_end"], "YTA=");
}

/// An answer with the header that all of etcd's have.
std::string in_answer(const std::string& members) {
  return R"({"header":{"revision":"2","raft_term":"2"})" + (members.empty() ? "" : "," + members) +
         "}";
}

TEST(EtcdMessages, AnswersAreWhatTheGatewayGives) {
  const std::string there = in_answer(
      R"("kvs":[{"key":"YWNjcnVlL3g=","create_revision":"2","mod_revision":"2","version":"1","value":"b25l","lease":"77"}],"count":"1")");
  EXPECT_EQ(value_in(there).value().value, "one");
  EXPECT_EQ(value_in(there).value().revision, 2);
  EXPECT_EQ(count_in(there), 1);
  EXPECT_EQ(value_in(in_answer("")), std::nullopt);
  EXPECT_EQ(count_in(in_answer("")), 0);
  EXPECT_TRUE(is_answer(in_answer("")));
  const std::string empty = in_answer(R"("kvs":[{"key":"YQ==","mod_revision":"5"}])");
  EXPECT_EQ(value_in(empty).value().value, "");
  EXPECT_TRUE(
      compared_in(in_answer(R"("succeeded":true,"responses":[{"response_put":{}}])")).is_put);
  const Compared other = compared_in(in_answer(
      R"("responses":[{"response_range":{"kvs":[{"mod_revision":"3","value":"dHdv"}],"count":"1"}}])"));
  EXPECT_FALSE(other.is_put);
  EXPECT_EQ(other.found.value().value, "two");
  const Added added = added_in(in_answer(
      R"("responses":[{"response_range":{"kvs":[{"mod_revision":"9","value":"Mw=="}]}},{"response_range":{}}])"));
  EXPECT_EQ(added.found.value().revision, 9);
  EXPECT_EQ(added.mark, std::nullopt);
  EXPECT_TRUE(has_deleted(in_answer(R"("deleted":"1")")));
  EXPECT_FALSE(has_deleted(in_answer("")));
  EXPECT_TRUE(is_renewed(R"({"result":{"header":{},"ID":"77","TTL":"3600"}})"));
  EXPECT_FALSE(is_renewed(R"({"result":{"header":{},"ID":"78"}})")) << "no such lease";
}

TEST(EtcdMessages, BytesComeBackFromBase64) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<char>(byte));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const std::string value = bytes.substr(0, size);
    const json put = json::parse(put_request("k", value, 1));
    EXPECT_EQ(value_in(json{{"header", json::object()}, {"kvs", json::array({put})}}.dump())
                  .value()
                  .value,
              value);
  }
}

TEST(EtcdMessages, WhatIsNoAnswerIsRefused) {
  for (const char* body :
       {"", "null", "[]", "{\"kvs\":", "{}", R"({"header":7})", R"({"ok":true})"}) {
    EXPECT_THROW(is_answer(body), std::runtime_error) << body;
    EXPECT_THROW(value_in(body), std::runtime_error) << body;
    EXPECT_THROW(count_in(body), std::runtime_error) << body;
    EXPECT_THROW(compared_in(body), std::runtime_error) << body;
    EXPECT_THROW(added_in(body), std::runtime_error) << body;
    EXPECT_THROW(has_deleted(body), std::runtime_error) << body;
    EXPECT_THROW(is_renewed(body), std::runtime_error) << body;
  }
  for (const char* members :
       {R"("kvs":7)", R"("kvs":[7])", R"("kvs":[{"value":7}])", R"("kvs":[{"value":"?"}])",
        R"("kvs":[{"value":"b25"}])", R"("kvs":[{"mod_revision":"two"}])",
        R"("kvs":[{"mod_revision":2}])", R"("kvs":[{"mod_revision":"99999999999999999999"}])"})
    EXPECT_THROW(value_in(in_answer(members)), std::runtime_error) << members;
  EXPECT_THROW(count_in(in_answer(R"("count":1)")), std::runtime_error);
  for (const char* members : {"", R"("responses":[])", R"("responses":[{}])",
                              R"("succeeded":"yes")", R"("responses":[{"response_put":{}}])"})
    EXPECT_THROW(compared_in(in_answer(members)), std::runtime_error) << members;
  EXPECT_THROW(is_renewed(R"({"result":{"TTL":"1"}})"), std::runtime_error);
}

TEST(EtcdMessages, AnErrorThatOtherMembersMayNotHaveIsNoRefusal) {
  const auto error = [](int code, const std::string& text) {
    return json{{"error", text}, {"message", text}, {"code", code}}.dump();
  };
  EXPECT_NO_THROW(check_answer(200, "anything"));
  EXPECT_THROW(check_answer(404, error(5, "etcdserver: requested lease not found")), EtcdRefusal);
  EXPECT_THROW(check_answer(412, error(9, "etcdserver: lease already exists")), EtcdRefusal);
  EXPECT_THROW(check_answer(400, error(3, "etcdserver: user name is empty")), EtcdRefusal);
  EXPECT_THROW(check_answer(429, error(8, "etcdserver: mvcc: database space exceeded")),
               EtcdRefusal);
  const auto passes = [&](long status, const std::string& body) {
    try {
      check_answer(status, body);
    } catch (const EtcdRefusal&) {
      return false;
    } catch (const std::runtime_error&) {
      return true;
    }
    return false;
  };
  EXPECT_TRUE(passes(503, error(14, "etcdserver: no leader")));
  EXPECT_TRUE(passes(503, error(14, "etcdserver: leader changed")));
  EXPECT_TRUE(passes(429, error(8, "etcdserver: too many requests")));
  EXPECT_TRUE(passes(500, error(2, "raft proposal dropped")));
  EXPECT_TRUE(passes(404, "<html>"));
  EXPECT_TRUE(passes(500, "{\"code\":\"14\"}"));
  EXPECT_THAT([&] { check_answer(503, error(14, "etcdserver: no leader")); },
              ThrowsMessage<std::runtime_error>(HasSubstr("no leader")));
}

}  // namespace
}  // namespace accrue::distributed
