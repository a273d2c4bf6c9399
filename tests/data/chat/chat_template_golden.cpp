// Renders for chat_template_golden.py:
// chat_template_golden REQUESTS ANSWERS: both JSON lines. A request is {"template", "variables",
// "now"} and "pieces": true where they are wanted, or {"template", "messages", "tools",
// "variables", "now"} for the sequences to learn. An answer is {"text"}, {"pieces"}, {"sequences"}
// or {"error"}.

#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "accrue/core/error.h"
#include "data/chat/learned_pieces.h"

namespace {

using accrue::data::ChatSequence;
using accrue::data::ChatTemplate;
using Json = nlohmann::ordered_json;

std::tm time_of(const Json& stated) {
  std::tm time{};
  time.tm_year = stated.at(0).get<int>() - 1900;
  time.tm_mon = stated.at(1).get<int>() - 1;
  time.tm_mday = stated.at(2).get<int>();
  time.tm_hour = stated.at(3).get<int>();
  time.tm_min = stated.at(4).get<int>();
  time.tm_sec = stated.at(5).get<int>();
  time.tm_wday = stated.at(6).get<int>();
  time.tm_yday = stated.at(7).get<int>();
  return time;
}

Json pieces_of(const ChatSequence& sequence) {
  Json pieces = Json::array();
  for (const auto& [text, is_learned] : sequence) pieces.push_back({text, is_learned});
  return pieces;
}

Json answer_to(const Json& request, const ChatTemplate& chat) {
  const std::tm now = time_of(request.at("now"));
  if (request.contains("messages")) {
    const auto found = accrue::data::learned_sequences(
        chat, request.at("messages"), {request.at("tools"), request.at("variables"), now});
    Json sequences = Json::array();
    for (const ChatSequence& sequence : found) sequences.push_back(pieces_of(sequence));
    return {{"sequences", sequences}};
  }
  if (request.contains("pieces"))
    return {{"pieces", pieces_of(chat.render_pieces(request.at("variables"), now))}};
  return {{"text", chat.render(request.at("variables"), now)}};
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  std::ifstream requests(arguments[1]);
  std::ofstream answers(arguments[2]);
  std::map<std::string, ChatTemplate> parsed;
  for (std::string line; std::getline(requests, line);) {
    const Json request = Json::parse(line);
    const auto& source = request.at("template").get_ref<const std::string&>();
    Json answer;
    try {
      auto found = parsed.find(source);
      if (found == parsed.end())
        found = parsed.emplace(source, ChatTemplate::parse(source, "chat template")).first;
      answer = answer_to(request, found->second);
    } catch (const accrue::Error& error) {
      answer = {{"error", error.what()}};
    }
    answers << answer.dump() << '\n';
  }
}
