#include "data/tokenizer/folder/tokenizer_class.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "core/lower_case.h"

namespace accrue::data {
namespace {

/// A class of transformers, and the model types whose tokenizers it reads if no file names a class;
/// without a name: TokenizersBackend, or a class that reads texts in the same way.
struct ClassOfModels {
  std::string_view name;
  std::string_view model_types;
};

/// TOKENIZER_MAPPING_NAMES of transformers 5.24 (models/auto/tokenization_auto.py). Mistral's own
/// class needs a file that accrue does not read; without it TokenizersBackend is used.
constexpr std::array<ClassOfModels, 94> classes_of_models{
    {{"",
      "EvollaModel arctic aria beam bigbird_pegasus camembertv2-base canary chatlm cohere_asr "
      "ernie4_5 ernie4_5_moe flex_olmo fuyu glm glm4 glm4_moe glm4_moe_lite glm4v glm4v_moe "
      "glm_image glmasr got_ocr2 gpt_bigcode gradium_phonon_tts granite granite_speech5_ctc "
      "granitemoe granitemoehybrid granitemoeshared h2ovl_chat hyperclovax hyperclovax_vlm "
      "internlm2 internlm3 iquestcoder jamba kimi_k25 kimi_linear kosmos-2 llava llava_next "
      "mimo_v2_flash minicpm3 minicpm_ocr minicpmv minicpmv4_6 minicpmv4_7 minimax_m2 ministral "
      "ministral3 mistral mistral3 mistral_large4 mixtral modernbert modernbert-decoder molmo "
      "molmo2 nemo_speechlm nemotron nemotron3_5_asr nemotron_asr_streaming nvfp4 nystromformer "
      "olmo2 olmo3 olmo_hybrid omniasr omniasr_ctc opencua openvla paddleocr_vl parakeet_ctc "
      "parakeet_rnnt parakeet_tdt pegasus_x persimmon phi3 phi3_v phimoe pix2struct pixtral "
      "pocket_tts smolvlm stablelm step3_vl umt5 vipllava voxtral voxtral_realtime xlm-roberta-xl"},
     {"AlbertTokenizer", "albert yoso"},
     {"BartTokenizer", "florence2"},
     {"BarthezTokenizer", "barthez"},
     {"BartphoTokenizer", "bartpho"},
     {"BertGenerationTokenizer", "bert-generation"},
     {"BertJapaneseTokenizer", "bert-japanese"},
     {"BertTokenizer",
      "align bark bert blip bros chinese_clip convbert distilbert electra ernie flava git "
      "grounding-dino layoutlm megatron-bert mm-grounding-dino nezha nomic_bert qdqbert realm "
      "retribert squeezebert tvp vilt visual_bert"},
     {"BertweetTokenizer", "bertweet"},
     {"BigBirdTokenizer", "big_bird"},
     {"BioGptTokenizer", "biogpt"},
     {"BlenderbotSmallTokenizer", "blenderbot-small"},
     {"BlenderbotTokenizer", "blenderbot"},
     {"ByT5Tokenizer", "byt5"},
     {"CLIPTokenizer",
      "aimv2 clip clipseg groupvit omdet-turbo oneformer owlv2 owlvit sam3 sam3_video xclip"},
     {"CTRLTokenizer", "ctrl"},
     {"CamembertTokenizer", "camembert"},
     {"CanineTokenizer", "canine"},
     {"ClvpTokenizer", "clvp"},
     {"CodeLlamaTokenizer", "code_llama"},
     {"CohereTokenizer", "aya_vision cohere cohere2"},
     {"CpmAntTokenizer", "cpmant"},
     {"CpmTokenizer", "cpm"},
     {"DPRQuestionEncoderTokenizer", "dpr"},
     {"DebertaTokenizer", "deberta"},
     {"DebertaV2Tokenizer", "deberta-v2"},
     {"DiaTokenizer", "dia"},
     {"EsmTokenizer", "esm"},
     {"EsmcTokenizer", "esmc esmfold2"},
     {"FNetTokenizer", "fnet"},
     {"FSMTTokenizer", "fsmt"},
     {"FastSpeech2ConformerTokenizer", "fastspeech2_conformer"},
     {"FlaubertTokenizer", "flaubert"},
     {"FunnelTokenizer", "funnel"},
     {"GPT2Tokenizer",
      "blip-2 codegen dbrx emu3 gpt2 gpt_neo gptj hyperclovax_vision_v2 instructblip "
      "instructblipvideo jais2 opt phi starcoder2"},
     {"GPTNeoXJapaneseTokenizer", "gpt_neox_japanese"},
     {"GPTNeoXTokenizer", "falcon_mamba gpt_neox mamba mamba2 mpt olmo olmoe rwkv xlstm"},
     {"GPTSw3Tokenizer", "gpt-sw3"},
     {"GemmaTokenizer",
      "diffusion_gemma gemma gemma2 gemma3 gemma3_text gemma3n gemma3n_text recurrent_gemma "
      "shieldgemma2 t5gemma zaya"},
     {"HerbertTokenizer", "herbert"},
     {"LEDTokenizer", "led"},
     {"LasrTokenizer", "lasr_ctc lasr_encoder"},
     {"LayoutLMv2Tokenizer", "layoutlmv2"},
     {"LayoutLMv3Tokenizer", "layoutlmv3"},
     {"LayoutXLMTokenizer", "layoutxlm"},
     {"LlamaTokenizer", "idefics idefics2"},
     {"LukeTokenizer", "luke"},
     {"LxmertTokenizer", "lxmert"},
     {"M2M100Tokenizer", "m2m_100"},
     {"MBart50Tokenizer", "mbart50"},
     {"MBartTokenizer", "mbart"},
     {"MLukeTokenizer", "mluke"},
     {"MPNetTokenizer", "mpnet"},
     {"MarianTokenizer", "marian"},
     {"MarkupLMTokenizer", "markuplm"},
     {"MgpstrTokenizer", "mgp-str"},
     {"MobileBertTokenizer", "mobilebert"},
     {"MvpTokenizer", "mvp"},
     {"MyT5Tokenizer", "myt5"},
     {"NllbTokenizer", "nllb nllb-moe"},
     {"NougatTokenizer", "nougat pp_formulanet"},
     {"OpenAIGPTTokenizer", "openai-gpt"},
     {"PLBartTokenizer", "plbart"},
     {"PegasusTokenizer", "pegasus"},
     {"PerceiverTokenizer", "perceiver"},
     {"PhobertTokenizer", "phobert"},
     {"ProphetNetTokenizer", "prophetnet"},
     {"Qwen2Tokenizer",
      "audioflamingo3 colqwen2 cosmos3_omni dots3_note fun_asr_nano hunyuan_vl internvl "
      "lighton_ocr moss_transcribe_diarize ovis2 qianfan_ocr qwen2 qwen2_5_omni qwen2_5_vl "
      "qwen2_audio qwen2_moe qwen2_vl qwen3 qwen3_asr qwen3_moe qwen3_next qwen3_omni_moe "
      "qwen3_vl qwen3_vl_moe vibevoice"},
     {"Qwen3_5Tokenizer", "qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text qwen4_exp"},
     {"RagTokenizer", "rag"},
     {"ReformerTokenizer", "reformer"},
     {"RemBertTokenizer", "rembert"},
     {"RoCBertTokenizer", "roc_bert"},
     {"RoFormerTokenizer", "roformer"},
     {"RobertaTokenizer",
      "bart bridgetower clap data2vec-text ibert lilt longformer mega mra roberta "
      "roberta-prelayernorm"},
     {"SeamlessM4TTokenizer", "seamless_m4t seamless_m4t_v2"},
     {"Siglip2Tokenizer", "siglip2"},
     {"SiglipTokenizer", "siglip"},
     {"Speech2TextTokenizer", "speech_to_text"},
     {"SpeechT5Tokenizer", "speecht5"},
     {"SplinterTokenizer", "splinter"},
     {"T5Tokenizer", "mt5 musicgen musicgen_melody switch_transformers t5"},
     {"TapasTokenizer", "tapas"},
     {"Tipsv2Tokenizer", "tipsv2"},
     {"UdopTokenizer", "udop"},
     {"VideoPrismTokenizer", "videoprism"},
     {"VitsTokenizer", "vits"},
     {"Wav2Vec2CTCTokenizer",
      "data2vec-audio hubert unispeech unispeech-sat wav2vec2 wav2vec2-bert wav2vec2-conformer"},
     {"Wav2Vec2PhonemeCTCTokenizer", "wav2vec2_phoneme"},
     {"WhisperTokenizer", "whisper"},
     {"XGLMTokenizer", "xglm"},
     {"XLMRobertaTokenizer", "gte jina_embeddings_v3 metaclip_2 trocr xlm-roberta xmod"},
     {"XLMTokenizer", "xlm"},
     {"XLNetTokenizer", "xlnet"}}};

/// Classes of no model type.
constexpr std::string_view other_classes =
    "BertTokenizerLegacy CharacterTokenizer CodeGenTokenizer ConvBertTokenizer "
    "DPRContextEncoderTokenizer DPRReaderTokenizer DistilBertTokenizer ElectraTokenizer "
    "LayoutLMTokenizer MecabTokenizer Pop2PianoTokenizer SqueezeBertTokenizer";

/// MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS: the class that their files name does not count.
constexpr std::string_view wrongly_named =
    "arctic camembertv2-base chatlm cohere_asr ernie4_5 ernie4_5_moe fuyu h2ovl_chat hyperclovax "
    "hyperclovax_vision_v2 hyperclovax_vlm internlm2 internlm3 iquestcoder jamba llava "
    "llava_next minicpm3 minicpmv minimax_m2 modernbert modernbert-decoder molmo molmo2 nemotron "
    "nvfp4 opencua openvla paddleocr_vl phi3 phi3_v phimoe qwen2 qwen3_5 qwen3_5_moe "
    "qwen3_5_moe_text qwen4_exp siglip2 smolvlm step3_vl vipllava";

/// Types of the table above that are not of a model: a config.json with one has no class by its
/// type alone.
constexpr std::string_view no_models =
    "barthez bartpho bert-japanese bertweet byt5 code_llama cpm herbert mbart50 mega mluke myt5 "
    "nezha nllb phobert qdqbert realm retribert wav2vec2_phoneme";

/// Names for which transformers has another class.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> other_names{
    {{"BartTokenizer", "RobertaTokenizer"},
     {"LEDTokenizer", "RobertaTokenizer"},
     {"LongformerTokenizer", "RobertaTokenizer"},
     {"MvpTokenizer", "RobertaTokenizer"},
     {"Phi3Tokenizer", "LlamaTokenizer"}}};

/// MODEL_IDS_TO_TOKENIZERS_BACKEND: prefixes of "_name_or_path", and whole ones.
constexpr std::array<std::string_view, 7> read_as_they_are{"deepseek-ai/deepseek-r1-distill-llama-",
                                                           "deepseek-ai/deepseek-coder-",
                                                           "naver-clova-ix/donut-",
                                                           "salesforce/blip2-opt-",
                                                           "salesforce/blip2-flan-t5-",
                                                           "salesforce/instructblip-flan-t5-",
                                                           "stepfun-ai/step-3.7-"};
constexpr std::string_view read_as_they_are_whole = "allenai/dolma2-tokenizer google/umt5-small";

bool has_word(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    if (words.substr(0, end) == word) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

/// The class by a model's type; none if no row has it.
std::optional<std::string_view> class_of_type(std::string_view model_type) {
  for (const ClassOfModels& one : classes_of_models)
    if (has_word(one.model_types, model_type)) return one.name;
  return std::nullopt;
}

std::string_view without_fast(std::string_view name) {
  constexpr std::string_view suffix = "Fast";
  return name.ends_with(suffix) ? name.substr(0, name.size() - suffix.size()) : name;
}

/// The class that a file names; empty if transformers has none of that name, as for
/// PreTrainedTokenizer and PreTrainedTokenizerFast.
std::string_view class_named(std::string_view name) {
  name = without_fast(name);
  for (const auto& [other, own] : other_names)
    if (name == other) return own;
  const bool is_known =
      std::ranges::find(classes_of_models, name, &ClassOfModels::name) != classes_of_models.end() ||
      has_word(other_classes, name);
  return is_known ? name : std::string_view();
}

/// The text of a key; empty if there is none.
template <class Object>
std::string text_in(const Object& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->template get<std::string>()
                                                     : std::string();
}

bool is_read_as_it_is(const std::string& stated_path) {
  const std::string path = lower_case(stated_path);
  return has_word(read_as_they_are_whole, path) ||
         std::ranges::any_of(read_as_they_are,
                             [&](std::string_view begin) { return path.starts_with(begin); });
}

/// Whether the files name a class in their own code, which then counts less than its name.
bool has_own_code(const nlohmann::ordered_json& settings) {
  const auto map = settings.find("auto_map");
  if (map == settings.end() || map->is_null()) return false;
  if (!map->is_object()) return true;
  const auto own = map->find("AutoTokenizer");
  return own != map->end() && !own->is_null();
}

/// Decides like AutoTokenizer.from_pretrained, in its order.
class ClassChoice {
 public:
  explicit ClassChoice(const ClassFacts& facts)
      : facts_(facts),
        stated_(text_in(facts.settings, "tokenizer_class")),
        of_config_(text_in(facts.config, "tokenizer_class")),
        model_type_(text_in(facts.config, "model_type")),
        of_type_(class_of_type(model_type_)) {}

  std::string_view choose() const {
    const std::string_view named = stated_.empty() ? of_config_ : stated_;
    if (!has_own_code(facts_.settings)) {
      // Without a model type the model's path decides.
      if (model_type_.empty() && is_read_as_it_is(text_in(facts_.config, "_name_or_path")))
        return {};
      if (without_fast(named) == "LlamaTokenizer" && facts_.has_byte_level && !is_wrongly_named())
        return {};
      if (!named.empty() && of_type_ && !is_of_type(named)) return of_both(named);
    }
    if (!named.empty()) return class_named(named);
    if (model_type_ == "gpt-sw3") return "GPT2Tokenizer";  // its model is a GPT-2
    return of_type_ && !has_word(no_models, model_type_) ? *of_type_ : std::string_view();
  }

 private:
  bool is_wrongly_named() const {
    return has_word(wrongly_named, model_type_) ||
           has_word(wrongly_named, text_in(facts_.config, "model_name"));
  }

  bool is_of_type(std::string_view named) const {
    return !of_type_->empty() && without_fast(named) == *of_type_;
  }

  /// If the files name another class than that of the model's type.
  std::string_view of_both(std::string_view named) const {
    if (of_type_->empty()) return {};
    return is_wrongly_named() ? class_named(*of_type_) : class_named(named);
  }

  const ClassFacts& facts_;
  std::string stated_, of_config_, model_type_;
  std::optional<std::string_view> of_type_;
};

}  // namespace

std::string tokenizer_class_of(const ClassFacts& facts) {
  return std::string(ClassChoice(facts).choose());
}

}  // namespace accrue::data
