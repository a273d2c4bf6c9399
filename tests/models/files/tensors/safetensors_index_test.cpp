#include <nlohmann/json.hpp>

#include "accrue/models/gpt2_io.h"
#include "accrue/models/safetensors.h"
#include "core/atomic_file.h"
#include "models/support.h"

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
                               HasSubstr("2 of its 3 tensors"), HasSubstr("\"a\"")));
}

TEST_F(SafetensorsIndex, NamesATensorThatIsNotWhereItSays) {
  map_["d"] = "two.safetensors";
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("two.safetensors"), HasSubstr("\"d\""), HasSubstr("no such tensor")));
  map_.erase("d");
  map_["b"] = "one.safetensors";
  EXPECT_THAT(refusal(), AllOf(HasSubstr("\"b\""), HasSubstr("no such tensor")));
}

std::vector<std::string> names_in(const StoredTensors& tensors) {
  std::vector<std::string> names;
  for (const StoredTensor& tensor : tensors) names.push_back(tensor.name);
  return names;
}

/// transformers does the same, since it reads whole files.
TEST_F(SafetensorsIndex, TakesTensorsWhereverTheyAre) {
  using ::testing::UnorderedElementsAre;
  map_["a"] = "two.safetensors";
  EXPECT_THAT(names_in(open()), UnorderedElementsAre("a", "b", "c"));
  map_.erase("c");
  map_["a"] = "one.safetensors";
  EXPECT_THAT(names_in(open()), UnorderedElementsAre("a", "b", "c"));
  map_.erase("b");
  EXPECT_THAT(names_in(open()), UnorderedElementsAre("a", "c")) << "of files that it names alone";
}

TEST_F(SafetensorsIndex, NamesATensorThatIsInTwoFilesWithOtherValues) {
  write_safetensors(folder_ / "two.safetensors", {two_file[0], one_file[0]});
  EXPECT_EQ(open().size(), 3U) << "twice the same";
  write_safetensors(folder_ / "two.safetensors",
                    {two_file[0], {"a", at::arange(1, 7).reshape({2, 3})}});
  EXPECT_THAT(refusal(), AllOf(HasSubstr("two.safetensors"), HasSubstr("one.safetensors"),
                               HasSubstr("\"a\""), HasSubstr("another save")));
  write_safetensors(folder_ / "two.safetensors", {two_file[0], {"a", at::ones(4)}});
  EXPECT_THAT(refusal(), HasSubstr("\"a\""));
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

/// This holds even if a shard has an old mask, which is not a weight.
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

  map["transformer.h.0.attn.masked_bias"] = map["transformer.h.0.attn.bias"];
  map["lm_head.weight"] = map["transformer.wte.weight"];
  write_file_atomically(index, json{{"weight_map", map}}.dump());
  EXPECT_NO_THROW(load_gpt2_folder(folder_ / "gpt2", small())) << "what is absent is not needed";
  std::filesystem::remove(index);
  EXPECT_THAT(message_of([&] { load_gpt2_folder(folder_ / "gpt2", small()); }),
              AllOf(HasSubstr("model.safetensors"), HasSubstr("neither")));
  write_file_atomically(folder_ / "gpt2/pytorch_model.bin", "");
  EXPECT_THAT(message_of([&] { load_gpt2_folder(folder_ / "gpt2", small()); }),
              AllOf(HasSubstr("pickle"), HasSubstr("save_pretrained")));
}

/// The file that should contain a needed tensor according to the index.
TEST_F(SafetensorsIndex, NamesTheFileThatLacksATensorOfTheModel) {
  save_gpt2_folder(folder_ / "gpt2", Gpt2(small()));
  NamedParameters tensors = read_safetensors(folder_ / "gpt2/model.safetensors").tensors;
  std::filesystem::remove(folder_ / "gpt2/model.safetensors");
  json map;
  for (const NamedParameter& tensor : tensors) map[tensor.name] = "part.safetensors";
  std::erase_if(tensors, [](const NamedParameter& tensor) {
    return tensor.name == "transformer.h.1.mlp.c_fc.bias";
  });
  write_safetensors(folder_ / "gpt2/part.safetensors", tensors);
  write_file_atomically(folder_ / "gpt2/model.safetensors.index.json",
                        json{{"weight_map", map}}.dump());
  EXPECT_THAT(message_of([&] { load_gpt2_folder(folder_ / "gpt2", small()); }),
              AllOf(HasSubstr("gpt2/part.safetensors"),
                    HasSubstr("\"transformer.h.1.mlp.c_fc.bias\""), HasSubstr("index.json says")));
}

/// A file has one of the tensors that share memory; also in several files.
TEST_F(SafetensorsIndex, HoldsATiedHeadInThePlaceOfTheEmbedding) {
  Gpt2 model(small());
  perturb(model);
  save_gpt2_folder(folder_ / "gpt2", model);
  NamedParameters tensors = read_safetensors(folder_ / "gpt2/model.safetensors").tensors;
  std::filesystem::remove(folder_ / "gpt2/model.safetensors");
  json map;
  NamedParameters head, others;
  for (NamedParameter& tensor : tensors) {
    const bool is_embedding = tensor.name == "transformer.wte.weight";
    if (is_embedding) tensor.name = "lm_head.weight";
    map[tensor.name] = is_embedding ? "head.safetensors" : "others.safetensors";
    (is_embedding ? head : others).push_back(tensor);
  }
  write_safetensors(folder_ / "gpt2/head.safetensors", head);
  write_safetensors(folder_ / "gpt2/others.safetensors", others);
  write_file_atomically(folder_ / "gpt2/model.safetensors.index.json",
                        json{{"weight_map", map}}.dump());
  const auto loaded = load_gpt2_folder(folder_ / "gpt2", small());
  EXPECT_TRUE(at::equal(loaded->parameters()[0].tensor, model.parameters()[0].tensor));
}

}  // namespace
}  // namespace accrue::models
