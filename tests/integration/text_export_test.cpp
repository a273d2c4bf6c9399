// The statements of an exported language model about its texts: their ends and continuations.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "accrue_program.h"
#include "core/atomic_file.h"
#include "small_tokenizer.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int end_of_text = 99, turn_start = 100, turn_ends = 101;
constexpr const char* turns =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// A model "base" whose tokenizer has a chat template, and ends texts by <end>; and conversations.
class TextExport : public AccrueProgram {
 protected:
  void SetUp() override {
    AccrueProgram::SetUp();
    write_small_run();
    json tokenizer = small_tokenizer();
    for (const auto& [id, text] :
         {std::pair{turn_start, "<|im_start|>"}, {turn_ends, "<|im_end|>"}})
      tokenizer["added_tokens"].push_back({{"id", id}, {"content", text}, {"special", true}});
    fs::create_directories(folder_ / "words");
    write("words/tokenizer.json", tokenizer.dump());
    write_settings({{"eos_token", "<end>"}, {"chat_template", turns}});
    std::string lines;
    for (const char* answer : {"the fox", "the dog", "a fox", "a dog"})
      lines += json{{"messages",
                     {{{"role", "user"}, {"content", "who"}},
                      {{"role", "assistant"}, {"content", answer}}}}}
                   .dump() +
               "\n";
    write("lines.jsonl", lines);
    write(
        "tune.toml",
        "[run]\nout = \"tuned\"\nsteps = 2\nthreads = 1\n[model]\nfrom = \"base\"\n"
        "[data]\ntrain = [\"lines.jsonl\"]\nformat = \"chat\"\n[batch]\nsamples = 4\nmicro = 4\n");
  }

  void write_settings(json settings) const {
    settings["tokenizer_class"] = "PreTrainedTokenizerFast";
    write("words/tokenizer_config.json", settings.dump());
  }
  Program::Result succeed(Words words) const {
    Program::Result result = accrue(std::move(words));
    EXPECT_EQ(result.status, 0) << result.errors;
    return result;
  }
  /// A run from scratch, exported as "base".
  void make_base(const std::string& steps = "2") const {
    succeed({"train", "run.toml", "--data.tokenizer=words", "--run.out=first",
             "--run.steps=" + steps, "--model.context=64"});
    succeed({"export", "first", "--out", "base"});
  }
  /// The same as other programs write it: without statements about turns.
  void make_foreign_base() const {
    make_base();
    write("base/generation_config.json",
          R"({"eos_token_id": 99, "repetition_penalty": 1.5, "max_new_tokens": 8})");
    json config = object_in("base/config.json");
    config["eos_token_id"] = end_of_text;
    write("base/config.json", config.dump());
  }
  json object_in(const std::string& name) const { return json::parse(read_file(folder_ / name)); }
  bool exists(const std::string& name) const { return fs::exists(folder_ / name); }
  json said(const std::string& from, Words more) const {
    more.insert(more.begin(), {"sample", from, "--temperature", "0", "--tokens", "12", "--json"});
    json answer = json::parse(succeed(std::move(more)).output);
    answer.erase("tokens_per_second");
    return answer;
  }
};

TEST_F(TextExport, OfAModelFromScratchEndsWhereItsTokenizerEnds) {
  make_base();
  const json ends{end_of_text, turn_ends};
  EXPECT_EQ(object_in("base/config.json")["eos_token_id"], ends);
  EXPECT_EQ(object_in("base/generation_config.json"), (json{{"eos_token_id", ends}}));
  EXPECT_EQ(object_in("base/tokenizer_config.json")["eos_token"], "<end>");
  EXPECT_EQ(read_file(folder_ / "base/tokenizer.json"),
            read_file(folder_ / "words/tokenizer.json"));
}

TEST_F(TextExport, OfATokenizerWithoutAnEndHasTheTurnsEndForOne) {
  write_settings({{"chat_template", turns}, {"pad_token", "<|im_start|>"}});
  make_base();
  EXPECT_EQ(object_in("base/generation_config.json"),
            (json{{"eos_token_id", turn_ends}, {"pad_token_id", turn_start}}));
  EXPECT_EQ(object_in("base/config.json")["pad_token_id"], turn_start);
  EXPECT_EQ(object_in("base/tokenizer_config.json")["eos_token"], "<|im_end|>");
}

TEST_F(TextExport, OfATokenizerWhoseTemplateShowsAnEndKeepsIt) {
  const std::string shows = std::string(turns) + "{{ eos_token }}";
  write_settings({{"chat_template", shows}});
  make_base();
  EXPECT_FALSE(object_in("base/tokenizer_config.json").contains("eos_token"))
      << "it showed none in training";
  EXPECT_EQ(object_in("base/generation_config.json")["eos_token_id"], turn_ends);
}

TEST_F(TextExport, OfChatOnABaseModelEndsWhereATurnEndsToo) {
  make_foreign_base();
  succeed({"train", "tune.toml"});
  fs::remove_all(folder_ / "base");
  const Program::Result result = succeed({"export", "tuned", "--out", "model"});
  EXPECT_THAT(result.errors, AllOf(HasSubstr("note: "), HasSubstr("<|im_end|> (101), too, unlike "),
                                   HasSubstr("generation_config.json of base")));
  const json ends{end_of_text, turn_ends}, generation = object_in("model/generation_config.json");
  EXPECT_EQ(generation,
            (json{{"eos_token_id", ends}, {"repetition_penalty", 1.5}, {"max_new_tokens", 8}}));
  EXPECT_EQ(object_in("model/config.json")["eos_token_id"], ends);
  EXPECT_THAT(read_file(folder_ / "model/README.md"),
              AllOf(HasSubstr("```jinja\n" + std::string(turns) + "\n```"),
                    HasSubstr("`<|im_end|>`"), HasSubstr("apply_chat_template")));
  for (const Words& words : {Words{"--prompt", "who"}, Words{"--prompt", "who", "--chat"}})
    EXPECT_EQ(said("tuned", words), said("model", words));
}

TEST_F(TextExport, OfARunThatBeganWithARunStatesWhatThatBeganWith) {
  make_foreign_base();
  succeed({"train", "tune.toml"});
  succeed({"train", "tune.toml", "--run.out=more", "--model.from=tuned"});
  fs::remove_all(folder_ / "base");
  fs::remove_all(folder_ / "tuned");
  succeed({"export", "more", "--out", "model"});
  EXPECT_EQ(object_in("model/generation_config.json")["repetition_penalty"], 1.5);
}

TEST_F(TextExport, OfTokenIdsFromScratchStatesNothing) {
  write("ids.bin", std::string(400, '\1'));
  succeed({"train", "run.toml", "--data.train=ids.bin", "--model.vocab=300",
           "--data.val_fraction=0", "--run.steps=1"});
  succeed({"export", "out", "--out", "model"});
  EXPECT_FALSE(exists("model/generation_config.json"));
  EXPECT_TRUE(object_in("model/config.json")["eos_token_id"].is_null());
}

TEST_F(TextExport, OfAdaptersHasTokensAndSaysHowTheyAreTaken) {
  make_foreign_base();
  succeed({"train", "tune.toml", "--lora.rank=2"});
  succeed({"export", "tuned", "--format", "adapter", "--out", "adapter"});
  EXPECT_EQ(object_in("adapter/generation_config.json")["eos_token_id"],
            (json{end_of_text, turn_ends}));
  EXPECT_EQ(object_in("adapter/tokenizer_config.json")["eos_token"], "<end>");
  EXPECT_FALSE(exists("adapter/config.json"));
  EXPECT_THAT(read_file(folder_ / "adapter/README.md"),
              AllOf(HasSubstr("GenerationConfig.from_pretrained"), HasSubstr("```jinja\n")));
}

TEST_F(TextExport, GoesOnByTheRulesOfItsGenerationConfig) {
  make_base("30");
  const auto with = [&](const json& generation, Words more = {}) {
    write("base/generation_config.json", generation.dump());
    more.insert(more.begin(), {"--prompt", "the q"});
    return std::string(said("base", more)["text"]);
  };
  const std::string plain = with(json::object());
  EXPECT_NE(with({{"no_repeat_ngram_size", 1}}), plain);
  EXPECT_EQ(with({{"no_repeat_ngram_size", 1}}), with(json::object(), {"--no-repeat-ngram", "1"}));
  EXPECT_EQ(with({{"no_repeat_ngram_size", 1}}, {"--no-repeat-ngram", "0"}), plain);
  EXPECT_NE(with({{"repetition_penalty", 9.0}}), plain);
  EXPECT_EQ(with({{"repetition_penalty", 9.0}}, {"--repetition-penalty", "1"}), plain);
  EXPECT_EQ(with(json::object(), {"--repetition-penalty", "9"}),
            with({{"repetition_penalty", 9.0}}));
  write("base/generation_config.json", R"({"num_beams": 2, "stop_strings": ["x"], "top_k": 3})");
  EXPECT_THAT(
      succeed({"sample", "base", "--prompt", "a", "--tokens", "2"}).errors,
      AllOf(HasSubstr("base states num_beams and stop_strings, "), Not(HasSubstr("top_k"))));
  write("base/generation_config.json", R"({"repetition_penalty": "1.2"})");
  const Program::Result refused = accrue({"sample", "base", "--prompt", "a"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.errors, HasSubstr("repetition_penalty"));
  EXPECT_EQ(accrue({"sample", "base", "--prompt", "a", "--no-repeat-ngram", "-1"}).status, 2);
}

TEST_F(TextExport, ComesWholeOrNotAtAll) {
  make_base();
  const Words without_adapters{"export", "first", "--format", "adapter", "--out"};
  const auto refused_to = [&](const std::string& out) {
    Words words = without_adapters;
    words.push_back(out);
    EXPECT_EQ(accrue(words).status, 2) << out;
  };
  refused_to("new/one");
  EXPECT_FALSE(exists("new"));
  fs::create_directories(folder_ / "empty");
  refused_to("empty");
  EXPECT_TRUE(fs::is_empty(folder_ / "empty"));
  succeed({"export", "first", "--out", "empty/"});
  succeed({"export", "first", "--out", "new/one"});
  for (const char* folder : {"empty", "new/one"})
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_ / folder))
      EXPECT_THAT(entry.path().filename().string(), Not(::testing::StartsWith(".")));
  write("empty/notes", "mine");
  EXPECT_EQ(accrue({"export", "first", "--out", "empty"}).status, 2);
  EXPECT_EQ(read_file(folder_ / "empty/notes"), "mine");
}

}  // namespace
}  // namespace accrue::testing
