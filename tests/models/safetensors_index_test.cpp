#include <nlohmann/json.hpp>

#include "accrue/models/gpt2_io.h"
#include "accrue/models/safetensors.h"
#include "core/atomic_file.h"
#include "support.h"

namespace accrue::models {
namespace {

using namespace models::testing;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

const NamedParameters one_file{{"a", at::arange(6).reshape({2, 3})}, {"c", at::ones(4)}};
const NamedParameters two_file{{"b", at::full({2}, 7.0)}};

/// Two files and their index, as Hugging Face writes them.
class SafetensorsIndex : public ::testing::Test {
 protected:
  void SetUp() override {
    write_safetensors(folder_ / "one.safetensors", one_file);
    write_safetensors(folder_ / "two.safetensors", two_file);
    map_ = {{"a", "one.safetensors"}, {"b", "two.safetensors"}, {"c", "one.safetensors"}};
  }

  std::filesystem::path index() const { return folder_ / "model.safetensors.index.json"; }
  StoredTensors open(const std::string& text) const {
    write_file_atomically(index(), text);
    return open_sharded_safetensors(index());
  }
  StoredTensors open() const { return open(json{{"weight_map", map_}}.dump()); }
  std::string refusal() const {
    return message_of([&] { open(); });
  }
  std::string refusal(const std::string& text) const {
    return message_of([&] { open(text); });
  }

  TemporaryFolder folder_;
  json map_;
};

TEST_F(SafetensorsIndex, GivesTheTensorsOfAllFiles) {
  const StoredTensors tensors =
      open(json{{"metadata", {{"total_size", 72}}}, {"weight_map", map_}}.dump());
  std::map<std::string, at::Tensor> read;
  for (const StoredTensor& tensor : tensors) read[tensor.name] = tensor.read();
  ASSERT_EQ(read.size(), 3u);
  EXPECT_TRUE(at::equal(read["a"], one_file[0].tensor));
  EXPECT_TRUE(at::equal(read["b"], two_file[0].tensor));
  EXPECT_TRUE(at::equal(read["c"], one_file[1].tensor));
}

TEST_F(SafetensorsIndex, NamesAFileThatIsNotThere) {
  std::filesystem::remove(folder_ / "one.safetensors");
  EXPECT_THAT(refusal(), AllOf(HasSubstr(index().string()), HasSubstr("one.safetensors"),
                               HasSubstr("2 of its 3 tensors")));
}

TEST_F(SafetensorsIndex, NamesATensorThatIsNotWhereItSays) {
  map_["d"] = "two.safetensors";
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("two.safetensors"), HasSubstr("\"d\""), HasSubstr("no such tensor")));
  map_.erase("d");
  map_["b"] = "one.safetensors";
  EXPECT_THAT(refusal(), AllOf(HasSubstr("\"b\""), HasSubstr("no such tensor")));
  map_.erase("b");
  map_["a"] = "two.safetensors";
  EXPECT_THAT(refusal(), AllOf(HasSubstr("one.safetensors"), HasSubstr("\"a\""),
                               HasSubstr("it says is in two.safetensors")));
  map_["a"] = "one.safetensors";
  map_.erase("c");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("\"c\""), HasSubstr("does not name")));
}

TEST_F(SafetensorsIndex, NamesATensorThatIsInTwoFiles) {
  write_safetensors(folder_ / "two.safetensors", {two_file[0], one_file[0]});
  EXPECT_THAT(refusal(), AllOf(HasSubstr("two.safetensors"), HasSubstr("\"a\"")));
}

TEST_F(SafetensorsIndex, NamesATensorThatItHasTwice) {
  EXPECT_THAT(refusal(R"({"weight_map": {"b": "one.safetensors", "b": "two.safetensors"}})"),
              AllOf(HasSubstr("\"b\""), HasSubstr("twice")));
}

TEST_F(SafetensorsIndex, StaysInItsFolder) {
  write_safetensors(folder_ / "outside.safetensors", two_file);
  std::filesystem::create_directory(folder_ / "in");
  const auto inner = folder_ / "in/model.safetensors.index.json";
  for (const std::string& name :
       {std::string("../outside.safetensors"), (folder_ / "outside.safetensors").string(),
        std::string("in/one.safetensors"), std::string(".."), std::string("."), std::string(),
        std::string("a\\b"), std::string("one.safetensors\0x", 17)}) {
    write_file_atomically(inner, json{{"weight_map", {{"b", name}}}}.dump());
    EXPECT_THAT(message_of([&] { open_sharded_safetensors(inner); }),
                AllOf(HasSubstr("\"b\""), HasSubstr("in the index's folder")))
        << name;
  }
}

TEST_F(SafetensorsIndex, RefusesWhatIsNone) {
  for (const char* text :
       {"", "{", "[]", "null", "{}", R"({"weight_map": []})", R"({"weight_map": {}})",
        R"({"weight_map": "one.safetensors"})", R"({"metadata": {}})"})
    EXPECT_THAT(refusal(text), HasSubstr("weight_map")) << text;
  EXPECT_THAT(refusal(R"({"weight_map": {"b": 3}})"), HasSubstr("\"b\""));
  EXPECT_THAT(refusal(R"({"weight_map": {"b": {"b": "two.safetensors"}}})"), HasSubstr("\"b\""));
}

TEST_F(SafetensorsIndex, NamesAFileThatIsDamaged) {
  const auto file = folder_ / "one.safetensors";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("one.safetensors"), HasSubstr("cut short")));
}

/// Also where a shard has an old mask, which is no weight.
TEST_F(SafetensorsIndex, HoldsAGpt2) {
  Gpt2 model(small());
  perturb(model);
  save_gpt2_folder(folder_ / "gpt2", model);
  NamedParameters tensors = read_safetensors(folder_ / "gpt2/model.safetensors").tensors;
  std::filesystem::remove(folder_ / "gpt2/model.safetensors");
  tensors.push_back({"transformer.h.0.attn.bias", at::ones({1, 1, 12, 12}, at::kBool)});
  const auto middle = tensors.begin() + std::ssize(tensors) / 2;
  const NamedParameters halves[] = {{tensors.begin(), middle}, {middle, tensors.end()}};
  json map;
  for (int half : {0, 1}) {
    const std::string name = "model-0000" + std::to_string(half + 1) + "-of-00002.safetensors";
    write_safetensors(folder_ / ("gpt2/" + name), halves[half]);
    for (const NamedParameter& tensor : halves[half]) map[tensor.name] = name;
  }
  const auto index = folder_ / "gpt2/model.safetensors.index.json";
  write_file_atomically(index, json{{"weight_map", map}}.dump());
  const auto loaded = load_gpt2_folder(folder_ / "gpt2", small());
  for (std::size_t i = 0; i < model.parameters().size(); ++i)
    EXPECT_TRUE(at::equal(loaded->parameters()[i].tensor, model.parameters()[i].tensor));

  std::filesystem::remove(index);
  EXPECT_THAT(message_of([&] { load_gpt2_folder(folder_ / "gpt2", small()); }),
              AllOf(HasSubstr("model.safetensors"), HasSubstr("neither")));
  write_file_atomically(folder_ / "gpt2/pytorch_model.bin", "");
  EXPECT_THAT(message_of([&] { load_gpt2_folder(folder_ / "gpt2", small()); }),
              AllOf(HasSubstr("pickle"), HasSubstr("save_pretrained")));
}

}  // namespace
}  // namespace accrue::models
