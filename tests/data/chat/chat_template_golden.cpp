// Renders for chat_template_golden.py:
// chat_template_golden REQUESTS ANSWERS: both JSON lines. A request is {"template", "variables",
// "now"} and "pieces": true if they are wanted, or {"template", "messages", "tools",
// "variables", "now"} for the sequences to learn, or {"folder", "line"} for those of a line by the
// tokenizer of a folder. An answer is {"text"}, {"pieces"}, {"sequences"} or {"error"}.

#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "accrue/core/error.h"
#include "data/chat/lines/chat_line.h"
#include "data/json/line_json.h"

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

Json answer_of(const std::vector<ChatSequence>& found) {
  Json sequences = Json::array();
  for (const ChatSequence& sequence : found) sequences.push_back(pieces_of(sequence));
  return {{"sequences", sequences}};
}

class Answers {
 public:
  Json answer_to(const Json& request) {
    return request.contains("line") ? answer_to_line(request) : answer_to_template(request);
  }

 private:
  Json answer_to_template(const Json& request) {
    const ChatTemplate& chat = parsed(request.at("template").get<std::string>());
    const std::tm now = time_of(request.at("now"));
    if (request.contains("messages"))
      return answer_of(accrue::data::learned_sequences(
          chat, request.at("messages"), {request.at("tools"), request.at("variables"), now}));
    if (request.contains("pieces"))
      return {{"pieces", pieces_of(chat.render_pieces(request.at("variables"), now))}};
    return {{"text", chat.render(request.at("variables"), now)}};
  }

  Json answer_to_line(const Json& request) {
    const auto folder = request.at("folder").get<std::string>();
    auto known = formats_.find(folder);
    if (known == formats_.end()) {
      const auto tokenizer =
          accrue::data::Tokenizer::open(std::filesystem::path(folder) / "tokenizer.json", folder);
      known = formats_.emplace(folder, accrue::data::read_chat_format(*tokenizer, folder)).first;
    }
    const auto line =
        accrue::data::read_chat_line(request.at("line").get<std::string>(), *known->second);
    if (!line.problem) return answer_of(line.sequences);
    return {
        {"error", "expected " + line.problem->expected + ", received " + line.problem->received}};
  }

  const ChatTemplate& parsed(const std::string& source) {
    auto found = parsed_.find(source);
    if (found == parsed_.end())
      found = parsed_.emplace(source, ChatTemplate::parse(source, "chat template")).first;
    return found->second;
  }

  std::map<std::string, ChatTemplate> parsed_;
  std::map<std::string, std::shared_ptr<const accrue::data::ChatFormat>> formats_;
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  std::ifstream requests(arguments[1]);
  std::ofstream answers(arguments[2]);
  Answers all;
  for (std::string line; std::getline(requests, line);) {
    Json answer;
    try {
      answer = all.answer_to(accrue::data::read_line_json(line).value);
    } catch (const accrue::Error& error) {
      answer = {{"error", error.what()}};
    }
    answers << answer.dump() << '\n';
  }
}
